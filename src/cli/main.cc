// The `torus` command: hands `serve` and `worker` their arguments, parses the rest, and turns what
// comes back into an exit status.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string_view>

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

// "torus tpu-vm create", as one types it.
std::string SpacedPath(const CLI::App& app) {
  std::string path = CommandPath(app);
  std::ranges::replace(path, '.', ' ');
  return path;
}

int FailUsage(const CLI::App& app, const std::string& message) {
  Fail(app, message);
  std::cerr << "Try: " << SpacedPath(app) << " --help" << std::endl;
  return kExitUsage;
}

// The first of `words` that looks like a flag, without its value; empty if none does.
std::string FirstFlag(const std::vector<std::string>& words) {
  const auto flag = std::ranges::find_if(
      words, [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  return flag == words.end() ? "" : flag->substr(0, flag->find('='));
}

// What is wrong with words that no command took. They stay with the command (or group) they follow.
std::string ExtrasMessage(const CLI::App& root, const CLI::App& command, const std::string& path) {
  for (const CLI::App* app = &root; app != &command; app = app->get_subcommands().front()) {
    const std::string flag = FirstFlag(app->remaining());
    if (flag.empty()) continue;
    if (command.get_option_no_throw(flag))
      return flag + " goes after the command: " + path + " " + flag + " ...";
    return "there is no flag \"" + flag + "\"";
  }
  const auto extras = root.remaining(true);
  if (const std::string flag = FirstFlag(extras); !flag.empty())
    return "there is no flag \"" + flag + "\"";
  std::string words;
  for (const std::string& word : extras) words += " " + word;
  return "not expected:" + words;
}

// What is wrong with the command line; CLI11 alone would not name a command that there is none of.
std::string UsageMessage(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App* command = &root;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error);
  const bool is_group = command->get_require_subcommand_min() > 0;
  if (is_group && (extras || dynamic_cast<const CLI::RequiredError*>(&error))) {
    const auto words = command->remaining();
    std::string names;
    for (const CLI::App* each : command->get_subcommands([](const CLI::App*) { return true; })) {
      if (!each->get_group().empty()) names += (names.empty() ? "" : ", ") + each->get_name();
    }
    if (words.empty()) return "give a command: one of " + names;
    if (words[0][0] != '-') return "there is no command \"" + words[0] + "\": one of " + names;
  }
  return extras || (is_group && !command->remaining().empty())
             ? ExtrasMessage(root, *command, SpacedPath(root))
             : error.what();
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

// Why a command that parses its own arguments was not run: main() knows it as the first one only.
std::string NotRunMessage(const CLI::App& app, std::string_view first) {
  const std::string& name = app.get_subcommands().front()->get_name();
  return first == name ? "this build has no such part"
                       : "\"" + name + "\" takes no flags before its name";
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
  if (!invocation.run) return FailUsage(*app, NotRunMessage(*app, argv[1]));
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
