// Programs that run in front of the user: they own the terminal, or a log file each.
#ifndef TORUS_CLI_FOREGROUND_H_
#define TORUS_CLI_FOREGROUND_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace torus::cli {

struct Program {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  std::string log;                // where its output goes; empty: to ours
};

// One program without a log replaces this process and does not return. Several run at once, with
// nothing to read, and the first exit status that is not 0 is returned; 128 + n for signal n.
// NOT_FOUND if a program is not installed.
Result<int> RunInFront(const std::vector<Program>& programs);

// The programs as a shell would take them, one a line, for --dry-run.
std::string ToShell(const std::vector<Program>& programs);

// One word quoted for a POSIX shell, if it needs it.
std::string ShellQuote(const std::string& word);

}  // namespace torus::cli

#endif  // TORUS_CLI_FOREGROUND_H_
