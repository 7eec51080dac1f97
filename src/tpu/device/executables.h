// What executables say of themselves: memory and cost, as a TPU's compiler would.
#ifndef TORUS_TPU_DEVICE_EXECUTABLES_H_
#define TORUS_TPU_DEVICE_EXECUTABLES_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tpu/device/compiled.h"
#include "tpu/pjrt/args.h"

namespace torus::tpu {

struct Client;
struct State;

// What is told of an executable: immutable, shared by a loaded executable and what is made of it.
struct Facts {
  Compiled compiled;
  std::vector<std::string> names;           // of the properties
  std::vector<PJRT_NamedValue> properties;  // of PJRT_Executable_GetCostAnalysis
  bool asks_for_run = false;                // it has calls that look for what their run was given
  bool meets = false;                       // … and some are collectives (program/collectives.h)
};

// Reads the engine's compiled program. Null where the engine does not give it.
std::shared_ptr<const Facts> ReadFacts(State& s, PJRT_Executable* executable, const Client& client);

// The program after the engine's optimizations, a serialized xla.HloModuleProto. None where the
// engine does not give it.
std::optional<std::string> OptimizedModule(State& s, PJRT_LoadedExecutable* loaded);

// PJRT_LoadedExecutable_GetExecutable.
PJRT_Error* GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args* args);

void OverrideExecutableFunctions(pjrt::Table& table);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_EXECUTABLES_H_
