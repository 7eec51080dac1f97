// Runs a program and waits for it: its input given, its output captured, its time bounded.
//
// The child gets no descriptor but 0, 1 and 2, its own process group, and default signal
// handling. Nothing goes through a shell.
//
// Thread-safe; the child inherits the namespaces of the calling thread.
#ifndef TORUS_BASE_SUBPROCESS_H_
#define TORUS_BASE_SUBPROCESS_H_

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace torus {

struct SubprocessOptions {
  std::string input;                          // what the child reads on 0
  std::chrono::milliseconds timeout{30'000};  // then its group is killed
  bool capture = true;                        // false: 1 and 2 go to /dev/null
  // Called with each whole line of output as it comes, without its newline.
  std::function<void(std::string_view line)> on_line;
  std::vector<std::string> environment;  // "NAME=value"; empty: the caller's own
  std::stop_token stop;                  // when it is requested, the child's group is killed
};

struct SubprocessResult {
  int exit_code = 0;   // 128 + n when signal n ended it
  std::string output;  // 1 and 2 together, the first 256 KiB
};

// Runs `argv` (argv[0] is looked up in PATH). NOT_FOUND when there is no such program;
// DEADLINE_EXCEEDED when the time is over, CANCELLED when it is to stop, and either way its whole
// group has been killed; INTERNAL when the system refuses. A program that ran is
// a result, whatever its exit code.
Result<SubprocessResult> RunSubprocess(const std::vector<std::string>& argv,
                                       const SubprocessOptions& options = {});

// As RunSubprocess, and an exit code other than 0 is an error that tells the command and the end of
// its output: INTERNAL, or RESOURCE_EXHAUSTED if that says that the disk is full. Returns the
// output.
Result<std::string> RunChecked(const std::vector<std::string>& argv,
                               const SubprocessOptions& options = {});

// Reaps the dead children of this process that came to it from a parent that died (it is a
// subreaper). Takes no status that RunSubprocess waits for: while one is under way on another
// thread it does nothing. REQUIRES: whoever else waits for a child does so on the calling thread.
void ReapOrphans();

}  // namespace torus

#endif  // TORUS_BASE_SUBPROCESS_H_
