// How --help prints a command, and the words for its options that the manual page uses, too. Pure.
#ifndef TORUS_CLI_HELP_H_
#define TORUS_CLI_HELP_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace torus::cli {

std::shared_ptr<CLI::Formatter> MakeHelpFormatter();

// "torus tpu-vm create TPU [FLAGS]" for a command at this path.
std::string UsageLine(const CLI::App& command, const std::string& path);

// An option's help with what goes for its value: "…; required", "…; not with --clear-labels".
std::string OptionHelp(const CLI::Option& option);

}  // namespace torus::cli

#endif  // TORUS_CLI_HELP_H_
