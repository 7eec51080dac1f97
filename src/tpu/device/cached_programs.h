// Programs that were compiled before, by this process or another: what a compilation is known by,
// and how its result is kept and loaded.
//
// A key holds everything that the engine's compiler sees (the program as the framework sent it, the
// options, the client, the environment) and what it is: builds of the engine and of Torus, and the
// CPU. So a program that is loaded is the one that a compilation would give. What Torus knows of a
// program is not kept: it is read from the loaded one. Thread-safety: all functions, from any
// thread.
#ifndef TORUS_TPU_DEVICE_CACHED_PROGRAMS_H_
#define TORUS_TPU_DEVICE_CACHED_PROGRAMS_H_

#include <memory>
#include <optional>
#include <string>

#include "tpu/device/state.h"

namespace torus::tpu {

// None where the result must not be kept: the cache is off, or the compilation does more than to
// compile (it dumps what it does), or nothing says what it depends on.
// REQUIRES: the options are as the engine takes them.
std::optional<std::string> CacheKey(State& s, const PJRT_Client_Compile_Args& args);

struct LoadedProgram {
  PJRT_LoadedExecutable* executable;
  std::shared_ptr<const ProgramCache::Entry> from;
};

// Loads a kept program for the client. None where there is none that can be loaded.
std::optional<LoadedProgram> LoadCached(State& s, PJRT_Client* client, const std::string& key);

// Keeps a program that was compiled, if the engine can serialize it.
void KeepCompiled(State& s, PJRT_LoadedExecutable* executable, const std::string& key);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_CACHED_PROGRAMS_H_
