// What a compiled program takes of a TPU: HBM and time.
//
// Read from the program as the engine compiled it, so shapes are those of one device. Sizes are in
// bytes and tiled (tiling.h). Thread-safety: a Compiled is immutable.
#ifndef TORUS_TPU_DEVICE_COMPILED_H_
#define TORUS_TPU_DEVICE_COMPILED_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "hardware/catalogue.h"
#include "tpu/device/tiling.h"
#include "tpu/program/cost.h"
#include "tpu/program/hlo.h"

namespace torus::tpu {

struct Footprint {
  int64_t arguments = 0, outputs = 0;
  int64_t aliased = 0;      // of the outputs, what takes over an argument's memory
  int64_t temporaries = 0;  // while it runs

  int64_t total() const { return arguments + outputs - aliased + temporaries; }
};

struct Compiled {
  Footprint memory;
  program::Cost cost;
  // For an error: the largest tensors, whence they are, and which batch would fit in `limit`.
  std::string advice;
};

// `limit` is the HBM that a device has.
Compiled Examine(const program::HloModule& module, const hardware::Generation& generation,
                 int64_t limit);

// The rates of one device of a generation, as libtpu 0.0.52 reckons with them.
program::Roofline RooflineOf(const hardware::Generation& generation);

// An array's or a tuple's bytes in HBM; what lies in the host's memory takes none.
int64_t TiledBytes(const Tiling& tiling, const program::HloShape& shape);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_COMPILED_H_
