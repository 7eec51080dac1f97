// Dots of numbers of less than a byte become dots of their result's type.
//
// XLA's CPU compiler widens such operands itself, and gives what it makes the operand's packed
// layout, which it then refuses. Here they are widened before it sees them.
#include <algorithm>

#include "tpu/program/edit.h"
#include "tpu/program/rewrite.h"

namespace torus::program {
namespace {

bool IsNarrow(const HloShape& shape) {
  const int bits = BitsOf(shape.element_type);
  return bits > 0 && bits < 8;
}

// Converts the narrow operands of the instruction at `at`; how many it added before it.
size_t Widen(const HloModule& module, HloComputation& computation, size_t at) {
  std::vector<HloInstruction> made;
  const HloInstruction dot = computation.instructions[at];
  auto operands = dot.operands;
  const int64_t first_id = NewId(module, computation);
  for (int64_t& operand : operands) {
    const HloInstruction& narrow = *computation.Find(operand);
    if (!IsNarrow(narrow.shape)) continue;
    HloInstruction wide{.id = first_id + static_cast<int64_t>(made.size()), .opcode = "convert"};
    wide.name = fmt::format("wide.{}", wide.id);
    wide.shape = ArrayShape(dot.shape.element_type, narrow.shape.dimensions);
    wide.operands = {std::exchange(operand, wide.id)};
    made.push_back(std::move(wide));
  }
  computation.instructions[at].operands = operands;
  computation.instructions.insert(computation.instructions.begin() + static_cast<ptrdiff_t>(at),
                                  made.begin(), made.end());
  return made.size();
}

}  // namespace

Result<bool> WidenInt4Dots(HloModule& module) {
  bool changed = false;
  for (auto& computation : module.computations) {
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      const auto& instruction = computation.instructions[i];
      if (instruction.opcode != "dot" || IsNarrow(instruction.shape)) continue;
      const size_t added = Widen(module, computation, i);
      i += added;
      changed |= added > 0;
    }
  }
  return changed;
}

}  // namespace torus::program
