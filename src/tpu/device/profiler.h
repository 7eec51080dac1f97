// The profiler that JAX finds in libtpu.so: PJRT's profiler extension over trace.h.
#ifndef TORUS_TPU_DEVICE_PROFILER_H_
#define TORUS_TPU_DEVICE_PROFILER_H_

#include "tpu/pjrt/api.h"

namespace torus::tpu {

// The extension, put before `next`. It lives for ever.
PJRT_Extension_Base* MakeProfilerExtension(PJRT_Extension_Base* next);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_PROFILER_H_
