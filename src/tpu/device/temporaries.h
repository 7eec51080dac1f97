// How much HBM a program's temporaries take while it runs, as a TPU's compiler would have them.
//
// Reckoned from the program that the engine compiled, which fuses less than a TPU's compiler and
// keeps everything in one memory: an element-wise operation with one user lives in its user's
// registers, constants that are broadcast are never written out, and what fits in the vector memory
// beside the rest does not go to HBM. What is left lives from its instruction to its last user, in
// the engine's order. An estimate; docs/libtpu.md says how near it comes to the real compiler.
// Thread-safety: a pure function.
#ifndef TORUS_TPU_DEVICE_TEMPORARIES_H_
#define TORUS_TPU_DEVICE_TEMPORARIES_H_

#include <cstdint>

#include "tpu/device/tiling.h"
#include "tpu/program/hlo.h"

namespace torus::tpu {

// Bytes of one device, with the padding of tiles; arguments and results do not count.
int64_t TemporaryBytes(const program::HloModule& module, const Tiling& tiling,
                       int64_t vector_memory_bytes);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_TEMPORARIES_H_
