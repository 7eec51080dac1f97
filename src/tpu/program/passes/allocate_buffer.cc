// AllocateBuffer, an array whose elements are whatever was there, becomes one of zeros.
#include "tpu/program/edit.h"
#include "tpu/program/maker.h"
#include "tpu/program/rewrite.h"

namespace torus::program {
namespace {

bool IsAllocation(const HloInstruction& instruction) {
  return instruction.opcode == "custom-call" &&
         instruction.custom_call_target == "AllocateBuffer" &&
         BitsOf(instruction.shape.element_type) > 0;
}

size_t Rewrite(const HloModule& module, HloComputation& computation, size_t at) {
  Maker make(module, computation, computation.instructions[at], "allocate");
  const int64_t zero = make.Fill(computation.instructions[at].shape.element_type, {}, 0);
  HloInstruction& allocation = computation.instructions[at];
  allocation.opcode = "broadcast";
  allocation.operands = {zero};
  ForgetCall(allocation);
  return make.PutBefore(computation, at);
}

}  // namespace

Result<bool> RewriteAllocateBuffer(HloModule& module) {
  bool changed = false;
  for (auto& computation : module.computations) {
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      if (!IsAllocation(computation.instructions[i])) continue;
      i += Rewrite(module, computation, i);
      changed = true;
    }
  }
  return changed;
}

}  // namespace torus::program
