// jax.debug.inspect_array_sharding: a program asks, while it is compiled, how a value is shared
// out.
//
// JAX sends a custom call InspectSharding whose configuration is the address of a function of
// jaxlib's and that of its data, and counts on a partitioner that the plugin's compiler calls. The
// engine has no such one. Here it compiles the program as far as that it has decided on shardings;
// they are handed to the functions, and the calls are taken out of the program.
// Thread-safety: from any thread.
#ifndef TORUS_TPU_DEVICE_INSPECT_SHARDING_H_
#define TORUS_TPU_DEVICE_INSPECT_SHARDING_H_

#include <string_view>

#include "base/status.h"
#include "tpu/pjrt/engine.h"
#include "tpu/program/hlo.h"

namespace torus::tpu {

// Answers the module's calls of InspectSharding and removes them. Whether there were any; what the
// engine, or the caller's function, has against it.
Result<bool> InspectShardings(pjrt::Engine& engine, PJRT_Client* client, program::HloModule& module,
                              std::string_view compile_options);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_INSPECT_SHARDING_H_
