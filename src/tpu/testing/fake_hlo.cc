// A value is the list of its arrays and tokens, however tuples nest.
#include "tpu/testing/fake_hlo.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "tpu/program/wire.h"

namespace torus::tpu::fake {
namespace {

using program::ElementType;
using program::HloInstruction;
using program::HloModule;
using program::HloShape;
using Value = std::vector<Array>;

size_t Leaves(const HloShape& shape) {
  if (!shape.is_tuple()) return 1;
  size_t leaves = 0;
  for (const auto& element : shape.tuple) leaves += Leaves(element);
  return leaves;
}

std::vector<float> Floats(const Array& array) {
  std::vector<float> floats(array.bytes->size() / sizeof(float));
  std::memcpy(floats.data(), array.bytes->data(), array.bytes->size());
  return floats;
}

Value OfFloats(const HloShape& shape, const std::vector<float>& floats) {
  Value value = MakeArrays(shape);
  std::memcpy(value[0].bytes->data(), floats.data(), value[0].bytes->size());
  return value;
}

template <typename Operation>
Value Elementwise(const HloShape& shape, const Value& a, const Value& b, Operation operation) {
  auto result = Floats(a[0]);
  std::ranges::transform(result, Floats(b[0]), result.begin(), operation);
  return OfFloats(shape, result);
}

// Results that lie where an operand lies: xla.HloInstructionProto's output_operand_aliasing.
void Alias(const HloInstruction& call, const Value& operands, Value& results) {
  for (const auto alias : program::wire::FindAllBytes(call.others, 74)) {
    const auto output = program::wire::FindInts(alias, 1);
    const auto operand = static_cast<size_t>(program::wire::FindInt(alias, 2).value_or(0));
    results[output.empty() ? 0 : static_cast<size_t>(output[0])] = operands[operand];
  }
}

// Runs one module on one device.
class Interpreter {
 public:
  Interpreter(const HloModule& module, Value arguments, const Place& place)
      : module_(module), arguments_(std::move(arguments)), place_(place) {}

  Result<Value> Run() {
    const auto& entry = *module_.entry();
    for (const auto& instruction : entry.instructions) {
      TORUS_ASSIGN_OR_RETURN(values_[instruction.id], Evaluate(instruction));
    }
    return values_[entry.root_id];
  }

 private:
  const Value& Operand(const HloInstruction& instruction, size_t i) const {
    return values_.at(instruction.operands[i]);
  }

  Value Operands(const HloInstruction& instruction) const {
    Value all;
    for (const int64_t id : instruction.operands) {
      all.insert(all.end(), values_.at(id).begin(), values_.at(id).end());
    }
    return all;
  }

  Result<Value> Evaluate(const HloInstruction& instruction) {
    const auto& op = instruction.opcode;
    if (op == "parameter") return Value{arguments_.at(instruction.parameter_number)};
    if (op == "after-all") return MakeArrays(instruction.shape);
    if (op == "tuple") return Operands(instruction);
    if (op == "get-tuple-element") return Element(instruction);
    if (op == "custom-call") return CallHandler(instruction);
    if (op == "add" || op == "multiply") {
      const auto& a = Operand(instruction, 0);
      const auto& b = Operand(instruction, 1);
      return op == "add" ? Elementwise(instruction.shape, a, b, std::plus<>())
                         : Elementwise(instruction.shape, a, b, std::multiplies<>());
    }
    if (op == "all-reduce") {
      return OfFloats(instruction.shape,
                      place_.meeting->Sum(instruction.id, Floats(Operand(instruction, 0)[0])));
    }
    return Unimplemented("The fake engine has no operation '{}'.", op);
  }

  Value Element(const HloInstruction& instruction) const {
    const auto& tuple = module_.entry()->Find(instruction.operands[0])->shape.tuple;
    size_t first = 0;
    for (int64_t i = 0; i < instruction.tuple_index; ++i) first += Leaves(tuple[i]);
    const auto from = Operand(instruction, 0).begin() + static_cast<ptrdiff_t>(first);
    return Value(from, from + static_cast<ptrdiff_t>(Leaves(instruction.shape)));
  }

  Result<Value> CallHandler(const HloInstruction& instruction) const {
    Call call{.target = instruction.custom_call_target,
              .attributes = instruction.backend_config,
              .arguments = Operands(instruction),
              .results = MakeArrays(instruction.shape),
              .device = place_.device,
              .user_data = place_.user_data};
    Alias(instruction, call.arguments, call.results);
    TORUS_RETURN_IF_ERROR(RunCall(call));
    return std::move(call.results);
  }

  const HloModule& module_;
  const Value arguments_;
  const Place& place_;
  std::map<int64_t, Value> values_;  // by instruction
};

}  // namespace

std::vector<float> Meeting::Sum(int64_t id, const std::vector<float>& mine) {
  MutexLock lock(mutex_);
  Total& total = totals_[id];
  total.sum.resize(mine.size());
  for (size_t i = 0; i < mine.size(); ++i) total.sum[i] += mine[i];
  ++total.joined;
  changed_.NotifyAll();
  while (total.joined < devices_) changed_.Wait(lock);
  return total.sum;
}

std::vector<Array> MakeArrays(const HloShape& shape) {
  std::vector<Array> arrays;
  for (const auto& element : shape.tuple) {
    for (Array& array : MakeArrays(element)) arrays.push_back(std::move(array));
  }
  if (shape.is_tuple()) return arrays;
  if (shape.element_type == ElementType::kToken) return {{shape, nullptr}};
  const auto bits = static_cast<size_t>(BitsOf(shape.element_type) * shape.elements());
  return {{shape, std::make_shared<std::vector<char>>((bits + 7) / 8)}};
}

const HloShape& ResultShape(const HloModule& module) {
  return module.entry()->Find(module.entry()->root_id)->shape;
}

Result<std::vector<Array>> Run(const HloModule& module, std::vector<Array> arguments,
                               const Place& place) {
  auto results = Interpreter(module, std::move(arguments), place).Run();
  if (results) std::erase_if(*results, [](const Array& array) { return array.bytes == nullptr; });
  return results;
}

}  // namespace torus::tpu::fake
