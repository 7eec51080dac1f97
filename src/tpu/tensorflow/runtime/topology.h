// The slice as TensorFlow asks for it: chips in a box, and the TensorCores of each.
//
// It is read from libtpu.so's topology description, which needs no chip, once. Thread-safety: all.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_TOPOLOGY_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_TOPOLOGY_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace torus::tensorflow {

struct Core {
  int id = 0;                    // of the slice; this host's ordinal in a slice of one host
  std::array<int, 3> chip = {};  // x, y, z
  int index = 0;                 // on its chip
};

struct Topology {
  std::vector<Core> cores;         // by id
  std::array<int, 3> bounds = {};  // chips along x, y, z
  int cores_per_chip = 1;          // as devices: a megacore is one
  std::string kind;                // such as "TPU v2"
  std::string accelerator_type;    // such as "v2-8"
  int64_t hbm_bytes = 0;           // of a core, what programs may use; 0: unknown
  std::string why;                 // where there is no core: what was missing

  int chips() const { return static_cast<int>(cores.size()) / cores_per_chip; }
  // Null where there is none.
  const Core* At(int x, int y, int z, int index) const;

  // The process's slice. Without a slice (no accelerator type is set and none is found) it has no
  // core.
  static const Topology& Get();
};

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_TOPOLOGY_H_
