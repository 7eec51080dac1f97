// Named fault points: where a test makes the process die as `kill -9` would, or hang.
//
// TORUS_FAULT=point:n[,point:n…] kills the process at the n-th time (from 1) that it reaches the
// point of that name; with `point:n=stop` it is stopped there (SIGSTOP), as one that hangs is.
// Every step that changes the world (a namespace, mount, process, file, rule or commit) stands
// behind one, named "<room>.<step>". Without the variables a point costs one load.
//
// TORUS_FAULT_LOG=FILE has each point that is reached appended to FILE, as "<pid> <point>", so a
// test learns what there is to walk. Of the processes that share a FILE only the first to meet its
// fault is struck, and FILE.struck holds its pid: those that follow it go on undisturbed.
//
// Thread-safe.
#ifndef TORUS_BASE_FAULT_H_
#define TORUS_BASE_FAULT_H_

#include <string>
#include <string_view>
#include <vector>

namespace torus {

// Dies or stops here if TORUS_FAULT says so.
void FaultPoint(std::string_view point);

namespace internal {

struct Fault {
  std::string point;
  int hit = 1;
  bool stop = false;  // not killed but stopped
  bool operator==(const Fault&) const = default;
};

// Reads the variable's text; what cannot be read is left out.
std::vector<Fault> ParseFaults(std::string_view text);

}  // namespace internal
}  // namespace torus

#endif  // TORUS_BASE_FAULT_H_
