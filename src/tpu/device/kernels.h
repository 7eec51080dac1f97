// Code of Torus's own that programs call as custom calls, and its registration with the engine.
#ifndef TORUS_TPU_DEVICE_KERNELS_H_
#define TORUS_TPU_DEVICE_KERNELS_H_

#include "tpu/pjrt/engine.h"

namespace torus::tpu {

// Makes the engine know every call that rewritten programs may have (program/rewrite.h), once. It
// may have no FFI: then it compiles no such program, and says that it does not know the call.
// Thread-safe.
void RegisterKernels(pjrt::Engine& engine);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_KERNELS_H_
