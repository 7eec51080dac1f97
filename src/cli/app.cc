// The tree of commands from its root.
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/version.h"

namespace torus::cli {
namespace {

constexpr char kDescription[] =
    "TPU as a service on machines you own.\n\n"
    "`torus serve` runs the service; the other commands talk to it as gcloud does, with gcloud's\n"
    "names and flags. `torus env` points gcloud itself and the client libraries at it.";

constexpr char kExamples[] =
    "A first TPU:\n"
    "  sudo torus serve &\n"
    "  torus tpu-vm create my-first-tpu --zone=us-central1-a --accelerator-type=v2-8 "
    "--version=tpu-ubuntu2204-base\n"
    "  torus tpu-vm ssh my-first-tpu --zone=us-central1-a\n\n"
    "`torus COMMAND --help` tells more, with examples.";

// The service and the worker parse their own arguments (main.cc); here they are for the help.
void AddServe(CLI::App& root) {
  root.add_subcommand("serve", "Run the service; `torus serve --help` lists its flags")
      ->prefix_command()
      ->footer("")
      ->group("Commands");
  root.add_subcommand("worker", "The agent of one TPU VM; the service runs it")
      ->prefix_command()
      ->footer("")
      ->group("");
}

}  // namespace

std::unique_ptr<CLI::App> MakeApp(Invocation& invocation) {
  auto app = std::make_unique<CLI::App>(kDescription, "torus");
  app->footer(kExamples);
  app->set_help_flag("-h,--help", "Print this help")->group("Flags");
  app->set_version_flag("--version", VersionLine(), "Print version, commit and engine")
      ->group("Flags");
  app->require_subcommand(1);
  app->formatter(MakeHelpFormatter());
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->group("Flags");
  AddCommonFlags(*app, invocation.before, ZoneFlag::kNone);
  AddServe(*app);
  AddTpuVm(*app, invocation);
  AddOperations(*app, invocation);
  AddAcceleratorTypes(*app, invocation);
  AddVersions(*app, invocation);
  AddLocations(*app, invocation);
  AddEnv(*app, invocation);
  AddRun(*app, invocation);
  AddDoctor(*app, invocation);
  AddCompletion(*app, invocation);
  AddMan(*app, invocation);
  return app;
}

}  // namespace torus::cli
