// Values that are sums yet to be made, one part a device ("unreduced"), are named where they end.
//
// Shardy's newer versions refuse a program in which such a value becomes a whole one at an
// instruction that does not say so: a reduction, what a shard_map takes in, what a function
// returns. JAX up to 0.10 sends programs that do. A sharding constraint says so. Put before such a
// place, with the sharding that the value has there anyway, it changes nothing else.
#include <algorithm>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/maker.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/wire.h"

namespace torus::program {
namespace {

// xla.HloInstructionProto
constexpr protozero::pbf_tag_type kFrontendAttributes = 68, kApiVersion = 77;
constexpr int kOriginalApi = 1;  // xla.CustomCallApiVersion

constexpr std::string_view kPerValue = "#sdy.sharding_per_value<[", kUnreduced = "unreduced=";

// "<@mesh, [{}], unreduced={"x"}>", ... of "#sdy.sharding_per_value<[<...>, <...>]>".
std::vector<std::string> ShardingsIn(std::string_view attribute) {
  std::vector<std::string> shardings;
  if (!attribute.starts_with(kPerValue)) return shardings;
  int depth = 0;
  for (const char c : attribute.substr(kPerValue.size())) {
    if (c == '<' && depth++ == 0) shardings.emplace_back();
    if (depth > 0) shardings.back() += c;
    if (c == '>' && --depth < 0) break;
  }
  return shardings;
}

int64_t MakeConstraint(Maker& make, const HloShape& shape, int64_t operand,
                       const std::string& sharding) {
  const int64_t id = make.Make("custom-call", shape, {operand});
  make.last().custom_call_target = "Sharding";
  protozero::pbf_writer others(make.last().others);
  others.add_enum(kApiVersion, kOriginalApi);
  protozero::pbf_writer attributes(others, kFrontendAttributes);
  protozero::pbf_writer entry(attributes, 1);  // map<string, string>
  entry.add_string(1, "xla.sdy.sharding");
  entry.add_string(2, fmt::format("{}{}]>", kPerValue, sharding));
  return id;
}

std::string Attribute(const HloInstruction& instruction, const char* name) {
  const auto attributes = FrontendAttributesOf(instruction);
  const auto found = attributes.find(name);
  return found == attributes.end() ? std::string() : found->second;
}

// The shardings of the operands of an instruction that changes or ends them; empty: it is none.
std::vector<std::string> OperandShardings(const HloInstruction& instruction) {
  const auto& target = instruction.custom_call_target;
  if (target == "xla.sdy.GlobalToLocalShape") {
    return ShardingsIn(Attribute(instruction, "xla.sdy.in_shardings"));
  }
  if (target == "xla.sdy.FuncResultSharding") {
    return ShardingsIn(Attribute(instruction, "xla.sdy.sharding"));
  }
  return {};
}

bool IsConstraint(const HloInstruction& instruction) {
  return instruction.custom_call_target == "Sharding";
}

bool IsUnreduced(const HloModule& module) {
  for (const auto& computation : module.computations) {
    for (const auto& instruction : computation.instructions) {
      for (const auto& [name, value] : FrontendAttributesOf(instruction)) {
        if (value.contains(kUnreduced)) return true;
      }
    }
  }
  return false;
}

// Constrains the operands of the instruction at `at`; how many it constrained.
size_t ConstrainOperands(const HloModule& module, HloComputation& computation, size_t at) {
  const auto shardings = OperandShardings(computation.instructions[at]);
  auto operands = computation.instructions[at].operands;
  if (shardings.size() != operands.size()) return 0;
  Maker make(module, computation, computation.instructions[at], "unreduced");
  for (size_t i = 0; i < operands.size(); ++i) {
    const HloInstruction& operand = *computation.Find(operands[i]);
    if (IsConstraint(operand)) continue;
    operands[i] = MakeConstraint(make, operand.shape, operand.id, shardings[i]);
  }
  computation.instructions[at].operands = std::move(operands);
  return make.PutBefore(computation, at);
}

// Constrains the argument at `at` to what it says that it is, for all who use it; how often: 0
// or 1.
size_t ConstrainArgument(const HloModule& module, HloComputation& computation, size_t at) {
  const HloInstruction argument = computation.instructions[at];
  constexpr std::string_view kSharding = "#sdy.sharding";
  const auto sharding = Attribute(argument, "xla.sdy.sharding");
  if (argument.opcode != "parameter" || !sharding.contains(kUnreduced) ||
      !sharding.starts_with(kSharding)) {
    return 0;
  }
  Maker make(module, computation, argument, "unreduced");
  const int64_t constrained =
      MakeConstraint(make, argument.shape, argument.id, sharding.substr(kSharding.size()));
  for (auto& user : computation.instructions) {
    std::ranges::replace(user.operands, argument.id, constrained);
  }
  if (computation.root_id == argument.id) computation.root_id = constrained;
  return make.PutBefore(computation, at + 1);
}

}  // namespace

Result<bool> ConstrainUnreduced(HloModule& module) {
  if (!IsUnreduced(module)) return false;
  bool changed = false;
  for (auto& computation : module.computations) {
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      const size_t added =
          ConstrainOperands(module, computation, i) + ConstrainArgument(module, computation, i);
      i += added;
      changed |= added > 0;
    }
  }
  return changed;
}

}  // namespace torus::program
