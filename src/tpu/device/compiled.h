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

// What an error of too little memory says beside upstream's words.
struct Advice {
  std::string tensors;  // the largest, and whence they are
  int64_t batch = 0;    // a first dimension that may be a batch's; 0: there is none
  int64_t growing = 0;  // bytes that do with it

  // The text where `over` bytes more are needed than there are, with the batch that would fit.
  std::string Text(int64_t over) const;
};

struct Compiled {
  Footprint memory;
  program::Cost cost;
  Advice advice;
};

Compiled Examine(const program::HloModule& module, const hardware::Generation& generation);

// The rates of one device of a generation, as libtpu 0.0.52 reckons with them.
program::Roofline RooflineOf(const hardware::Generation& generation);

// An array's or a tuple's bytes in HBM; what lies in the host's memory takes none.
int64_t TiledBytes(const Tiling& tiling, const program::HloShape& shape);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_COMPILED_H_
