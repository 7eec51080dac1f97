// Named fault points: where a test makes the process die as `kill -9` would.
//
// TORUS_FAULT=point:n[,point:n…] kills the process at the n-th time (from 1) that it reaches the
// point of that name. Every step that changes the world (a namespace, mount, process, file, rule or
// commit) stands behind one, named "<room>.<step>". Without the variable a point costs one load.
//
// Thread-safe.
#ifndef TORUS_BASE_FAULT_H_
#define TORUS_BASE_FAULT_H_

#include <string>
#include <string_view>
#include <vector>

namespace torus {

// Dies here by SIGKILL if TORUS_FAULT says so.
void FaultPoint(std::string_view point);

namespace internal {

struct Fault {
  std::string point;
  int hit = 1;
  bool operator==(const Fault&) const = default;
};

// Reads the variable's text; what cannot be read is left out.
std::vector<Fault> ParseFaults(std::string_view text);

}  // namespace internal
}  // namespace torus

#endif  // TORUS_BASE_FAULT_H_
