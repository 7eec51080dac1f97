// TORUS_VERIFY_WITH: each program that is compiled goes to torus-verify, too, a process of its own
// beside libtpu.so that compiles it with the libtpu.so that the variable names.
//
// Sending is all that a compile pays for it; the process writes to stderr by itself, and may go on
// for two minutes when this one has ended. Thread-safety: all functions, from any thread.
#ifndef TORUS_TPU_DEVICE_VERIFY_H_
#define TORUS_TPU_DEVICE_VERIFY_H_

#include "tpu/device/state.h"

namespace torus::tpu {

bool IsVerifying();

// Sends what was compiled and what became of it: `error`, or an executable. Both stay the caller's.
void Verify(State& s, const PJRT_Client_Compile_Args& args, PJRT_Error* error);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_VERIFY_H_
