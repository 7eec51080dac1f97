// Programs of several replicas that a framework runs one replica at a time.
//
// PyTorch/XLA compiles each program for every device of the slice and runs it where a tensor is
// (execute_device): on one device only, or from a thread or a process for each. The engine starts
// the replicas of a program together, so one that came alone would wait for the others. Hence each
// program is compiled for one device, whichever a run names; its collectives become calls of our
// own (program/collectives.h), and its runs are launches (collectives.h).
#ifndef TORUS_TPU_DEVICE_REPLICAS_H_
#define TORUS_TPU_DEVICE_REPLICAS_H_

#include <functional>

#include "tpu/pjrt/api.h"

namespace torus::tpu {

struct Client;
struct State;

// Whether the maker of a client runs replicas so, by what it says of itself.
bool RunsReplicasAlone(const PJRT_Client_Create_Args& args);

// Compiles a program of such a client with `compile`. UNIMPLEMENTED for one that is partitioned
// over devices of several processes.
PJRT_Error* CompileReplicas(State& s, const Client& client, PJRT_Client_Compile_Args* args,
                            const std::function<PJRT_Error*(PJRT_Client_Compile_Args*)>& compile);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_REPLICAS_H_
