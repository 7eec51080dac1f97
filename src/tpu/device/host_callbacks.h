// Host callbacks: what a program sends to and receives from the process it runs in.
//
// A framework gives a run two lists of callbacks by channel (PJRT_ExecuteOptions); the program's
// sends and recvs are calls of code of ours (program/rewrite.h) that find those lists through the
// run's execute context. No thread of the engine waits for a callback: a call ends later, and the
// framework's code runs on a thread of Torus's own, so that many may be under way on any number of
// devices. Thread-safety: all functions, from any thread.
#ifndef TORUS_TPU_DEVICE_HOST_CALLBACKS_H_
#define TORUS_TPU_DEVICE_HOST_CALLBACKS_H_

#include <vector>

#include "tpu/device/state.h"

namespace torus::tpu {

// Makes the engine know the calls. UNIMPLEMENTED where it has no FFI.
Status RegisterHostCallbacks(pjrt::Engine& engine);

// Whether the caller of a run gave it callbacks.
bool HasHostCallbacks(const PJRT_ExecuteOptions* options);

// Runs the program with its callbacks. `devices`: where each argument list runs.
PJRT_Error* ExecuteWithHostCallbacks(State& s, PJRT_LoadedExecutable_Execute_Args* args,
                                     const std::vector<Device*>& devices);

// The functions of PJRT_CopyToDeviceStream.
void OverrideStreamFunctions(pjrt::Table& table);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_HOST_CALLBACKS_H_
