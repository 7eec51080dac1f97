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

#include "tpu/device/collectives.h"
#include "tpu/device/state.h"
#include "tpu/device/trace.h"
#include "tpu/pjrt/ffi.h"

namespace torus::tpu {

// Makes the engine know the calls. UNIMPLEMENTED where it has no FFI.
Status RegisterHostCallbacks(pjrt::Engine& engine);

// Whether the caller of a run gave it callbacks, or an execute context of its own.
bool HasHostCallbacks(const PJRT_ExecuteOptions* options);
bool HasOwnContext(const PJRT_ExecuteOptions* options);

// Whether the program's run needs a context of ours: it has callbacks, or its calls look for some.
// The engine does not bear a call that looks for what a run has where it has no context at all.
bool NeedsContext(const Program& program, const PJRT_ExecuteOptions* options);

// Runs the program with its callbacks, if any, and as `run` of a trace and `launch` of collectives,
// if not null. `devices`: where each argument list runs.
PJRT_Error* ExecuteWithContext(State& s, PJRT_LoadedExecutable_Execute_Args* args,
                               const std::vector<Device*>& devices,
                               std::shared_ptr<const TracedRun> run = nullptr,
                               std::shared_ptr<Launch> launch = nullptr);

// The traced run and the launch that a call is of; null where it is of none.
const TracedRun* FindTracedRun(const pjrt::ffi::CallFrame& call);
std::shared_ptr<Launch> FindLaunch(const pjrt::ffi::CallFrame& call);

// The functions of PJRT_CopyToDeviceStream.
void OverrideStreamFunctions(pjrt::Table& table);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_HOST_CALLBACKS_H_
