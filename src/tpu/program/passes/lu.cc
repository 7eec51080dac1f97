// LuDecomposition, which only the TPU's compiler knows, becomes a call of code of our own.
#include "tpu/program/edit.h"
#include "tpu/program/rewrite.h"

namespace torus::program {
namespace {

bool IsLu(const HloInstruction& instruction) {
  return instruction.opcode == "custom-call" && instruction.custom_call_target == "LuDecomposition";
}

// What the code relies on: a[..., m, n] -> (lu as a, pivots s32[..., k], permutation s32[..., m]).
Status CheckShapes(const HloComputation& computation, const HloInstruction& lu) {
  const auto& results = lu.shape.tuple;
  const bool fits = lu.operands.size() == 1 && results.size() == 3 &&
                    results[0].dimensions.size() >= 2 &&
                    results[1].element_type == ElementType::kS32 &&
                    results[2].element_type == ElementType::kS32 &&
                    computation.Find(lu.operands[0])->shape.dimensions == results[0].dimensions;
  if (fits) return Status();
  return InvalidArgument("The LU decomposition '{}' has not the shapes that it must have: {}.",
                         lu.name, lu.shape.ToString());
}

}  // namespace

Result<bool> RewriteLu(HloModule& module) {
  bool changed = false;
  for (auto& computation : module.computations) {
    for (auto& instruction : computation.instructions) {
      if (!IsLu(instruction)) continue;
      TORUS_RETURN_IF_ERROR(CheckShapes(computation, instruction));
      MakeFfiCall(computation, instruction, kLuTarget, "", /*has_side_effect=*/false);
      changed = true;
    }
  }
  return changed;
}

}  // namespace torus::program
