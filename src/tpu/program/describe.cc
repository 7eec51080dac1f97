// Texts of instructions.
#include "tpu/program/describe.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "tpu/program/wire.h"

namespace torus::program {
namespace {

constexpr protozero::pbf_tag_type kFusionKind = 11;  // of xla.HloInstructionProto: "kLoop"

bool IsElementwise(std::string_view opcode) {
  static const auto& names = *new std::set<std::string_view>{"abs",
                                                             "add",
                                                             "and",
                                                             "atan2",
                                                             "bitcast-convert",
                                                             "cbrt",
                                                             "ceil",
                                                             "clamp",
                                                             "compare",
                                                             "complex",
                                                             "convert",
                                                             "cosine",
                                                             "divide",
                                                             "erf",
                                                             "exponential",
                                                             "floor",
                                                             "imag",
                                                             "log",
                                                             "logistic",
                                                             "exponential-minus-one",
                                                             "map",
                                                             "maximum",
                                                             "minimum",
                                                             "multiply",
                                                             "negate",
                                                             "not",
                                                             "or",
                                                             "popcnt",
                                                             "power",
                                                             "real",
                                                             "remainder",
                                                             "rsqrt",
                                                             "select",
                                                             "shift-left",
                                                             "shift-right-arithmetic",
                                                             "sign",
                                                             "sine",
                                                             "sqrt",
                                                             "subtract",
                                                             "shift-right-logical",
                                                             "tan",
                                                             "tanh",
                                                             "xor",
                                                             "is-finite",
                                                             "log-plus-one",
                                                             "reduce-precision",
                                                             "round-nearest-afz",
                                                             "round-nearest-even",
                                                             "count-leading-zeros"};
  return names.contains(opcode);
}

bool Multiplies(std::string_view opcode) { return opcode == "convolution" || opcode == "dot"; }

std::string FusionCategory(const HloModule& module, const HloInstruction& fusion) {
  for (const int64_t id : fusion.called) {
    const HloComputation* computation = module.Find(id);
    if (computation != nullptr &&
        std::ranges::any_of(computation->instructions, Multiplies, &HloInstruction::opcode)) {
      return "convolution fusion";
    }
  }
  const auto kind = wire::FindBytes(fusion.others, kFusionKind).value_or("kLoop");
  if (kind == "kInput") return "input fusion";
  if (kind == "kOutput") return "output fusion";
  return kind == "kCustom" ? "custom fusion" : "loop fusion";
}

}  // namespace

std::string TextOf(const HloComputation& computation, const HloInstruction& instruction) {
  std::string operands;
  for (const int64_t id : instruction.operands) {
    const HloInstruction* operand = computation.Find(id);
    if (operand == nullptr) continue;
    operands += fmt::format("{}{} %{}", operands.empty() ? "" : ", ", operand->shape.ToString(),
                            operand->name);
  }
  return fmt::format("%{} = {} {}({})", instruction.name, instruction.shape.ToString(),
                     instruction.opcode, operands);
}

std::string CategoryOf(const HloModule& module, const HloInstruction& instruction) {
  const auto& op = instruction.opcode;
  try {
    if (op == "fusion") return FusionCategory(module, instruction);
  } catch (const protozero::exception&) {
    return op;
  }
  if (op == "copy" || op == "transpose" || op == "reshape") return "data formatting";
  if (Multiplies(op)) return "convolution";  // a matrix product is one to XLA's TPU compiler
  return IsElementwise(op) ? "non-fusion elementwise" : op;
}

}  // namespace torus::program
