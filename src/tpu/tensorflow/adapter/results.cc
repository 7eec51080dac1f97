#include "tpu/tensorflow/adapter/results.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace torus::tensorflow {
namespace {

using xla::HloComputationProto;
using xla::HloInstructionProto;
using xla::HloModuleProto;

template <typename List>
auto* ById(List* list, int64_t id) {
  const auto found =
      std::ranges::find_if(*list, [id](const auto& each) { return each.id() == id; });
  return found == list->end() ? nullptr : &*found;
}

bool IsDynamic(const xla::ShapeProto& shape) {
  return std::ranges::any_of(shape.is_dynamic_dimension(), std::identity());
}

bool SameSizes(const xla::ShapeProto& a, const xla::ShapeProto& b) {
  return std::ranges::equal(a.dimensions(), b.dimensions());
}

// The value that a result is, without the reshapes to its own shape that tf2xla puts before it.
int64_t ValueOf(HloComputationProto& entry, int64_t id) {
  const auto* instruction = ById(entry.mutable_instructions(), id);
  while (instruction != nullptr && instruction->operand_ids_size() == 1 &&
         (instruction->opcode() == "reshape" || instruction->opcode() == "copy")) {
    const auto* operand = ById(entry.mutable_instructions(), instruction->operand_ids(0));
    if (operand == nullptr || !SameSizes(operand->shape(), instruction->shape())) break;
    instruction = operand;
  }
  return instruction == nullptr ? id : instruction->id();
}

template <typename List>
void Keep(List* list, const std::vector<int>& kept) {
  List left;
  for (const int number : kept) *left.Add() = list->Get(number);
  list->Swap(&left);
}

}  // namespace

std::vector<int> JoinResults(HloModuleProto* module) {
  auto* entry = ById(module->mutable_computations(), module->entry_computation_id());
  auto* root = entry == nullptr ? nullptr : ById(entry->mutable_instructions(), entry->root_id());
  std::vector<int> numbers, kept;
  if (root == nullptr || root->opcode() != "tuple") {
    numbers.resize(module->host_program_shape().result().tuple_shapes_size());
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }
  const auto aliased = [module](int result) {
    return std::ranges::any_of(module->input_output_alias().entries(), [result](const auto& each) {
      return each.output_shape_index(0) == result;
    });
  };
  std::map<int64_t, int> known;  // by value, the number of its result
  for (int i = 0; i < root->operand_ids_size(); ++i) {
    int number = static_cast<int>(kept.size());
    if (IsDynamic(root->shape().tuple_shapes(i)) && !aliased(i))
      number = known.emplace(ValueOf(*entry, root->operand_ids(i)), number).first->second;
    if (number == static_cast<int>(kept.size())) kept.push_back(i);
    numbers.push_back(number);
  }
  if (kept.size() == numbers.size()) return numbers;
  Keep(root->mutable_operand_ids(), kept);
  Keep(root->mutable_shape()->mutable_tuple_shapes(), kept);
  if (root->sharding().tuple_shardings_size() == static_cast<int>(numbers.size()))
    Keep(root->mutable_sharding()->mutable_tuple_shardings(), kept);
  *entry->mutable_program_shape()->mutable_result() = root->shape();
  *module->mutable_host_program_shape()->mutable_result() = root->shape();
  for (auto& alias : *module->mutable_input_output_alias()->mutable_entries())
    alias.set_output_shape_index(0, numbers[alias.output_shape_index(0)]);
  return numbers;
}

}  // namespace torus::tensorflow
