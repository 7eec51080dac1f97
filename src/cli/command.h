// What every command of `torus` shares: the flags that all of them take, and what a parsed command
// leaves to be run.
//
// A command is one file with one function, Add…(), that hangs it into the tree. Its CLI11 callback
// checks the flags and may throw CLI::ParseError, which never leaves main.cc; what it stores in
// Invocation::run reports by Result. Thread-safety: none; one thread.
#ifndef TORUS_CLI_COMMAND_H_
#define TORUS_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace torus::cli {

// Exit statuses, as gcloud has them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;          // the service or the operation said no
inline constexpr int kExitUsage = 2;          // the command line is wrong
inline constexpr int kExitInterrupted = 130;  // Ctrl-C, as a shell counts it

enum class ZoneFlag { kNone, kOrAll, kRequired };

struct Invocation;

// Flags that each command takes. Strings are empty until given; Resolve fills the defaults.
struct CommonFlags {
  std::string endpoint;  // "http://127.0.0.1:7470"
  std::string project;
  std::string zone;    // "-" means all zones
  std::string format;  // empty: the command's own
  bool quiet = false;

  // Fills what was not given after the command: by what was given before it, else from the
  // environment. Throws CLI::ValidationError if a zone is required and none is known, or the format
  // is not one.
  void Resolve(const Invocation& invocation, ZoneFlag zone_flag);
};

// What parsing a command line yields.
struct Invocation {
  CommonFlags before;  // the flags before the command: `torus --quiet tpu-vm …`
  std::vector<std::string> after_dashes;  // the arguments after "--"
  bool takes_after_dashes = false;        // set by the command that wants them
  std::function<Result<int>()> run;       // returns the exit status
};

// The group of the help that CommonFlags but --zone are in.
inline constexpr char kCommonGroup[] = "Flags that every command takes, before or after its name";

// Adds a group of commands, which takes the flags that go before a command.
CLI::App* AddGroup(CLI::App& parent, Invocation& invocation, const std::string& name,
                   const std::string& help, const std::string& examples);

// Adds a command with a line of help and examples, one a line.
CLI::App* AddCommand(CLI::App& parent, const std::string& name, const std::string& help,
                     const std::string& examples);

// Adds --endpoint, --project, --format, --quiet and, if wanted, --zone; `flags` must outlive the
// parse.
void AddCommonFlags(CLI::App& command, CommonFlags& flags, ZoneFlag zone_flag);

// Adds a flag that may be repeated and takes one value each time.
CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& help);

// Lets an option take whole numbers from 1 only.
CLI::Validator PositiveNumber();

// The value of an environment variable; empty where it is unset.
std::string Environment(const char* name);

// The user's home folder: HOME, else what the account says. FAILED_PRECONDITION if neither does.
Result<std::string> HomeFolder();

// "torus.tpu-vm.create" for the deepest command that was parsed, as gcloud names one in an error.
std::string CommandPath(const CLI::App& root);

}  // namespace torus::cli

#endif  // TORUS_CLI_COMMAND_H_
