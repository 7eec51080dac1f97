// Errors of our own making, next to the engine's.
//
// A PJRT_Error is opaque and its maker must be known before it may be read, so ours are kept in a
// list. Errors are rare; the list has a lock. Thread-safety: all functions, from any thread.
#ifndef TORUS_TPU_PJRT_ERROR_H_
#define TORUS_TPU_PJRT_ERROR_H_

#include "base/status.h"
#include "tpu/pjrt/api.h"

namespace torus::pjrt {

// The status of an error of ours, or null if it is not ours. Lives as long as the error.
const Status* FindOwnError(const PJRT_Error* error);

// Frees an error of ours. False, and nothing done, if it is not ours.
bool FreeOwnError(const PJRT_Error* error);

}  // namespace torus::pjrt

#endif  // TORUS_TPU_PJRT_ERROR_H_
