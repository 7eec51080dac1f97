// Programs of several replicas that a framework runs one replica at a time.
//
// PyTorch/XLA compiles each program for every device of the slice and runs it where a tensor is
// (execute_device): on one device only, or from a thread for each. The engine starts the replicas of
// a program together, so one that came alone would wait for the others. Hence:
//
// - A program whose replicas have nothing to do with one another is compiled for one device,
//   whichever a run names.
// - The others are gangs. As on chips, whose collectives meet in the order in which they were
//   started, the nth run of a gang on each device belongs to one launch. Threads that compile the
//   same program get the same executable, since the engine tells launches apart by it.
#ifndef TORUS_TPU_DEVICE_REPLICAS_H_
#define TORUS_TPU_DEVICE_REPLICAS_H_

#include <functional>
#include <map>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "tpu/pjrt/api.h"

namespace torus::tpu {

struct Client;
struct State;

// Whether the maker of a client runs replicas so, by what it says of itself.
bool RunsReplicasAlone(const PJRT_Client_Create_Args& args);

// The executables of a client that are gangs. Thread-safety: all methods, from any thread.
class Gangs {
 public:
  using Compile = std::function<PJRT_Error*(PJRT_Client_Compile_Args*)>;

  // Compiles the program, or answers with the executable of an equal one that is not yet released.
  PJRT_Error* Get(PJRT_Client_Compile_Args* args, const Compile& compile);
  // One holder of the executable lets it go. True where no other has it.
  bool Release(const PJRT_LoadedExecutable* executable);
  // One of `devices` brings its part of a launch. UNIMPLEMENTED where another brought another
  // program: the engine lets only parts of one meet.
  Status Join(int launch, const PJRT_LoadedExecutable* executable, size_t devices);

 private:
  struct Gang {
    PJRT_LoadedExecutable* executable = nullptr;
    int holders = 0;
  };
  Mutex mutex_;  // held while a gang compiles: who comes with the same program waits
  std::map<std::string, Gang> gangs_ TORUS_GUARDED_BY(mutex_);  // by program and options

  struct Launch {
    const PJRT_LoadedExecutable* executable = nullptr;
    size_t joined = 0;
  };
  Mutex launches_mutex_;
  std::map<int, Launch> launches_ TORUS_GUARDED_BY(launches_mutex_);  // not yet joined by all
};

// Compiles a program of such a client with `compile`.
PJRT_Error* CompileReplicas(State& s, Client& client, PJRT_Client_Compile_Args* args,
                            const Gangs::Compile& compile);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_REPLICAS_H_
