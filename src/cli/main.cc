// The `torus` command: hands `serve` and `worker` their arguments, parses the rest, and turns what
// comes back into an exit status.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "cli/commands.h"

#ifdef TORUS_HAS_SERVE
#include "service/serve.h"
#endif
#ifdef TORUS_HAS_WORKER
#include "worker/worker_main.h"
#endif

namespace torus::cli {
namespace {

int Fail(const CLI::App& app, const std::string& message) {
  std::cerr << "ERROR: (" << CommandPath(app) << ") " << message << std::endl;
  return kExitError;
}

int FailUsage(const CLI::App& app, const std::string& message) {
  Fail(app, message);
  std::string path = CommandPath(app);
  std::ranges::replace(path, '.', ' ');
  std::cerr << "Try: " << path << " --help" << std::endl;
  return kExitUsage;
}

// What is wrong with the command line; CLI11 alone would not name a command that there is none of.
std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* group = &app;
  while (!group->get_subcommands().empty()) group = group->get_subcommands().front();
  std::string names;
  for (const CLI::App* each : group->get_subcommands([](const CLI::App*) { return true; })) {
    if (!each->get_group().empty()) names += (names.empty() ? "" : ", ") + each->get_name();
  }
  const auto extra = group->remaining();
  if (names.empty()) return error.what();
  return (extra.empty() ? "give a command" : "there is no command \"" + extra[0] + "\"") +
         ": one of " + names;
}

// Splits off what stands after "--".
std::vector<std::string> TakeArguments(int argc, char** argv, Invocation& invocation) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes != arguments.end()) {
    invocation.after_dashes.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
  }
  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  return arguments;
}

int Main(int argc, char** argv) {
  Invocation invocation;
  const auto app = MakeApp(invocation);
  try {
    app->parse(TakeArguments(argc, argv, invocation));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app->exit(error);  // --help, --version
    return FailUsage(*app, UsageMessage(*app, error));
  }
  if (!invocation.after_dashes.empty() && !invocation.takes_after_dashes)
    return FailUsage(*app, "nothing may follow \"--\" here");
  if (!invocation.run) return FailUsage(*app, "this build has no such part");
  const Result<int> result = invocation.run();
  if (result) return *result;
  Fail(*app, result.error().ToString());
  return result.error().code() == Code::kCancelled ? kExitInterrupted : kExitError;
}

}  // namespace
}  // namespace torus::cli

int main(int argc, char** argv) {
#ifdef TORUS_HAS_SERVE
  if (argc > 1 && std::strcmp(argv[1], "serve") == 0)
    return torus::service::ServeMain(argc - 1, argv + 1);
#endif
#ifdef TORUS_HAS_WORKER
  if (argc > 1 && std::strcmp(argv[1], "worker") == 0)
    return torus::worker::WorkerMain(argc - 1, argv + 1);
#endif
  return torus::cli::Main(argc, argv);
}
