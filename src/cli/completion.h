// Shell completion, and the manual page, both written from the tree of commands itself.
//
// Pure. Thread-safe as long as the tree is not changed.
#ifndef TORUS_CLI_COMPLETION_H_
#define TORUS_CLI_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace torus::cli {

// What may be typed in one place: a command ("tpu-vm create"; "" is torus itself), its commands and
// flags.
struct CompletionNode {
  std::string path;
  std::vector<std::pair<std::string, std::string>> commands;  // name, help
  struct Flag {
    std::string name, help;  // "--zone"
    bool takes_value = false;
  };
  std::vector<Flag> flags;
};

// Every node of the tree; hidden commands are left out.
std::vector<CompletionNode> CompletionTree(const CLI::App& root);

// The values that a flag may take, as the built-in catalogue knows them; empty: anything.
std::vector<std::string> FlagValues(std::string_view flag);

// The script for "bash", "zsh" or "fish". INVALID_ARGUMENT otherwise.
Result<std::string> CompletionScript(const CLI::App& root, std::string_view shell);

// The manual page torus(1), in roff.
std::string ManPage(const CLI::App& root);

}  // namespace torus::cli

#endif  // TORUS_CLI_COMPLETION_H_
