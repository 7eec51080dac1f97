// Edits of computations.
#include "tpu/program/edit.h"

#include <algorithm>

#include "tpu/program/wire.h"

namespace torus::program {
namespace {

// xla.HloInstructionProto
constexpr protozero::pbf_tag_type kIsHostTransfer = 47, kConstrainLayout = 56, kOperandShapes = 57,
                                  kHasSideEffect = 65, kApiVersion = 77;
constexpr int kTypedFfi = 4;  // xla.CustomCallApiVersion

}  // namespace

HloShape RowMajor(const HloShape& shape) {
  if (shape.is_tuple()) {
    std::vector<HloShape> elements;
    for (const auto& element : shape.tuple) elements.push_back(RowMajor(element));
    return TupleShape(std::move(elements));
  }
  if (shape.element_type == ElementType::kToken) return TokenShape();
  return ArrayShape(shape.element_type, shape.dimensions);
}

void MakeFfiCall(const HloComputation& computation, HloInstruction& instruction,
                 std::string_view target, std::string_view attributes, bool has_side_effect) {
  ForgetCall(instruction);
  instruction.opcode = "custom-call";
  instruction.custom_call_target = target;
  instruction.backend_config = attributes;
  instruction.channel_id = 0;
  instruction.shape = RowMajor(instruction.shape);
  protozero::pbf_writer others(instruction.others);
  others.add_bool(kConstrainLayout, true);
  for (const int64_t operand : instruction.operands) {
    others.add_message(kOperandShapes, WriteShape(RowMajor(computation.Find(operand)->shape)));
  }
  others.add_bool(kHasSideEffect, has_side_effect);
  others.add_enum(kApiVersion, kTypedFfi);
}

void ForgetCall(HloInstruction& instruction) {
  instruction.custom_call_target.clear();
  instruction.backend_config.clear();
  for (const auto field :
       {kIsHostTransfer, kConstrainLayout, kOperandShapes, kHasSideEffect, kApiVersion}) {
    instruction.others = wire::Without(instruction.others, field);
  }
}

void Replace(HloComputation& computation, const std::map<int64_t, int64_t>& replacements) {
  const auto renew = [&](int64_t& id) {
    const auto found = replacements.find(id);
    if (found != replacements.end()) id = found->second;
  };
  std::erase_if(computation.instructions, [&](const HloInstruction& instruction) {
    return replacements.contains(instruction.id);
  });
  for (auto& instruction : computation.instructions) {
    std::ranges::for_each(instruction.operands, renew);
    std::ranges::for_each(instruction.after, renew);
  }
  renew(computation.root_id);
}

// XLA's ids are unique in a module; newer ones have their computation's id in the upper half.
int64_t NewId(const HloModule& module, const HloComputation& computation) {
  const auto newest = [](const HloComputation& of) {
    int64_t id = 0;
    for (const auto& instruction : of.instructions) id = std::max(id, instruction.id);
    return id;
  };
  const int64_t own = newest(computation);
  if (own >> 32 != 0) return own + 1;
  int64_t id = own;
  for (const auto& other : module.computations) id = std::max(id, newest(other));
  return id + 1;
}

}  // namespace torus::program
