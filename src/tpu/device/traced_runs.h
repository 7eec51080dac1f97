// Runs of programs while a profiler's session is on.
//
// The engine does not tell when its operations run. So a program is compiled a second time when it
// first runs in a session, with marks between its operations (program/marks.h), and that one runs
// as long as the session is on: the same operations, one after the other. A program that cannot be
// compiled so (it came serialized, the engine has no hook for it) runs as it is, and only its whole
// runs are recorded; the trace says why. Thread-safety: all functions, from any thread.
#ifndef TORUS_TPU_DEVICE_TRACED_RUNS_H_
#define TORUS_TPU_DEVICE_TRACED_RUNS_H_

#include <memory>
#include <string>
#include <vector>

#include "tpu/device/trace.h"
#include "tpu/pjrt/engine.h"

namespace torus::tpu {

struct Device;
struct Program;
struct State;

// What a framework compiled: kept with the program, so that it can be compiled with marks.
struct CompiledFrom {
  std::string code, format, options;

  static std::shared_ptr<const CompiledFrom> Of(const PJRT_Client_Compile_Args& args);
};

// A program's second self, made when a session first meets it.
struct TracedSelf {
  std::shared_ptr<const TracedProgram> program;
  PJRT_LoadedExecutable* loaded = nullptr;  // the program's; null: it has no marks
  std::string why_unmarked;
};

// Makes the engine know the call that a mark is. UNIMPLEMENTED where it has no FFI.
Status RegisterMarks(pjrt::Engine& engine);

// PJRT_LoadedExecutable_Execute, recorded. `devices`: where each argument list runs.
PJRT_Error* ExecuteTraced(State& s, Program& program, PJRT_LoadedExecutable_Execute_Args* args,
                          const std::vector<Device*>& devices);

// Frees the second self of a program that goes.
void DestroyTracedSelf(State& s, Program& program);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_TRACED_RUNS_H_
