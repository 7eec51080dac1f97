// Kernels that Pallas compiled with Mosaic are machine code of the real chip's cores.
//
// The call's backend_config is JSON that holds the kernel as MLIR of Mosaic's dialect, of which
// nothing but Google's compiler makes code. The program is refused with the kernel's name and the
// way out.
#include <algorithm>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/rewrite.h"

namespace torus::program {
namespace {

// Pallas names a kernel in frontend attributes or, always, in the name stack of its call:
// "jit(f)/pallas_call" or "jit(f)/my_kernel".
std::string KernelName(const HloInstruction& call) {
  const auto attributes = FrontendAttributesOf(call);
  if (const auto found = attributes.find("kernel_name"); found != attributes.end()) {
    return found->second;
  }
  const auto source = SourceOfInstruction(call);
  return source.op_name.empty() ? call.name : source.op_name;
}

}  // namespace

Result<bool> RefuseMosaic(HloModule& module) {
  for (const auto& computation : module.computations) {
    for (const auto& instruction : computation.instructions) {
      if (instruction.custom_call_target != "tpu_custom_call") continue;
      return Unimplemented(
          "The Pallas kernel '{}' of the program '{}' is compiled for a real TPU's cores "
          "(tpu_custom_call), which the software TPU does not have. Run it interpreted: "
          "pl.pallas_call(..., interpret=True), or interpret=pltpu.InterpretParams() to simulate "
          "a TPU's memories and DMAs.",
          KernelName(instruction), module.name);
    }
  }
  return false;
}

}  // namespace torus::program
