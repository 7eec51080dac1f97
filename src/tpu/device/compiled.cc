// Sizes of a program's values, and what is said where they are too large.
#include "tpu/device/compiled.h"

#include <algorithm>
#include <unordered_set>

#include "tpu/device/hbm.h"
#include "tpu/device/temporaries.h"
#include "tpu/program/hlo_attributes.h"
#include "tpu/program/source.h"

namespace torus::tpu {
namespace {

using program::HloComputation;
using program::HloInstruction;
using program::HloModule;
using program::HloShape;

constexpr int64_t kHostSpace = 5;  // xla::Layout::kHostMemorySpace

int64_t Dense(const HloShape& shape) {
  int64_t bytes = DenseBytes(BitsOf(shape.element_type), shape.dimensions);
  for (const auto& element : shape.tuple) bytes += Dense(element);
  return bytes;
}

// The shape of a result's part; null where there is none.
const HloShape* Part(const HloShape& shape, const std::vector<int64_t>& index) {
  const HloShape* part = &shape;
  for (const int64_t i : index) {
    if (i < 0 || static_cast<size_t>(i) >= part->tuple.size()) return nullptr;
    part = &part->tuple[i];
  }
  return part;
}

// A shape's own array, or those of a tuple: TensorFlow passes all arguments as one.
std::vector<const HloShape*> ArraysOf(const HloShape& shape) {
  if (!shape.is_tuple()) return {&shape};
  std::vector<const HloShape*> arrays;
  for (const auto& element : shape.tuple) {
    const auto inner = ArraysOf(element);
    arrays.insert(arrays.end(), inner.begin(), inner.end());
  }
  return arrays;
}

// Computations whose instructions' results lie in memory: all but those of fusions and of what a
// reduction, a sort or the like applies to each element.
std::unordered_set<int64_t> InMemory(const HloModule& module) {
  std::unordered_set<int64_t> found{module.entry_computation_id};
  std::vector<int64_t> left{module.entry_computation_id};
  while (!left.empty()) {
    const auto* computation = module.Find(left.back());
    left.pop_back();
    if (computation == nullptr) continue;
    for (const auto& instruction : computation->instructions) {
      const auto& op = instruction.opcode;
      if (op != "while" && op != "call" && op != "conditional") continue;
      for (const int64_t id : instruction.called) {
        if (found.insert(id).second) left.push_back(id);
      }
    }
  }
  return found;
}

// An array in memory: an instruction's result, or an element of it.
struct Value {
  const HloInstruction* instruction;
  const HloShape* shape;
  int64_t bytes;
};

// What the program holds in memory, largest first.
std::vector<Value> ValuesOf(const HloModule& module, const Tiling& tiling) {
  std::vector<Value> values;
  const auto in_memory = InMemory(module);
  for (const auto& computation : module.computations) {
    if (!in_memory.contains(computation.id)) continue;
    const bool entry = computation.id == module.entry_computation_id;
    for (const auto& instruction : computation.instructions) {
      const auto& op = instruction.opcode;
      const bool new_memory = op != "tuple" && op != "get-tuple-element" && op != "bitcast" &&
                              op != "while" && op != "call" && (entry || op != "parameter");
      if (!new_memory) continue;
      for (const HloShape* array : ArraysOf(instruction.shape))
        values.push_back({&instruction, array, TiledBytes(tiling, *array)});
    }
  }
  std::ranges::stable_sort(values, std::ranges::greater(), &Value::bytes);
  return values;
}

int64_t Leading(const HloShape& shape) {
  return shape.dimensions.empty() ? 0 : shape.dimensions.front();
}

Footprint FootprintOf(const HloModule& module, const Tiling& tiling, int64_t vector_memory_bytes) {
  Footprint memory;
  const HloComputation* entry = module.entry();
  if (entry == nullptr) return memory;
  for (const auto& instruction : entry->instructions) {
    if (instruction.opcode == "parameter")
      memory.arguments += TiledBytes(tiling, instruction.shape);
  }
  if (const auto* root = entry->Find(entry->root_id)) {
    memory.outputs = TiledBytes(tiling, root->shape);
    for (const auto& alias : program::AliasesOf(module)) {
      if (const auto* part = Part(root->shape, alias.output_index)) {
        memory.aliased += TiledBytes(tiling, *part);
      }
    }
  }
  memory.temporaries = TemporaryBytes(module, tiling, vector_memory_bytes);
  return memory;
}

void Halve(HloShape& shape, int64_t batch) {
  for (int64_t& dimension : shape.dimensions)
    if (dimension == batch) dimension = batch / 2;
  for (auto& element : shape.tuple) Halve(element, batch);
}

// The bytes that grow with the batch: twice those that half a batch saves.
int64_t Growing(HloModule module, const Tiling& tiling, const Footprint& memory,
                int64_t vector_memory_bytes, int64_t batch) {
  for (auto& computation : module.computations)
    for (auto& instruction : computation.instructions) Halve(instruction.shape, batch);
  const auto half = FootprintOf(module, tiling, vector_memory_bytes);
  return 2 * (memory.total() - half.total());
}

// Whether the first dimension of the largest array may be a batch's: it is an argument's, too.
void FindBatch(const HloModule& module, const std::vector<Value>& values, const Tiling& tiling,
               const Footprint& memory, int64_t vector_memory_bytes, Advice& advice) {
  constexpr int64_t kLarge = 16 << 20;  // what is smaller will hardly be too large
  const int64_t batch = values.empty() ? 0 : Leading(*values.front().shape);
  if (batch < 2 || memory.total() < kLarge) return;
  const bool found = std::ranges::any_of(values, [batch](const Value& value) {
    return value.instruction->opcode == "parameter" && Leading(*value.shape) == batch;
  });
  if (!found) return;
  advice.batch = batch;
  advice.growing = Growing(module, tiling, memory, vector_memory_bytes, batch);
}

Advice AdviceOn(const HloModule& module, const Tiling& tiling, const Footprint& memory,
                int64_t vector_memory_bytes) {
  const auto values = ValuesOf(module, tiling);
  Advice advice;
  FindBatch(module, values, tiling, memory, vector_memory_bytes, advice);
  std::string& text = advice.tensors;
  text = fmt::format(
      "\nArguments {}, outputs {} ({} of them in the place of arguments), temporaries {}; sizes "
      "are of one device, with the padding of tiles.\nLargest tensors:",
      FormatBytes(memory.arguments), FormatBytes(memory.outputs), FormatBytes(memory.aliased),
      FormatBytes(memory.temporaries));
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, values.size()); ++i) {
    const auto& [instruction, shape, bytes] = values[i];
    text += fmt::format("\n  {} {} {}", FormatBytes(bytes), shape->ToString(), instruction->opcode);
    const int64_t dense = Dense(*shape);
    if (bytes > dense + dense / 8)
      text += fmt::format(", {} of it padding", FormatBytes(bytes - dense));
    const auto source = SourceText(module, *instruction);
    if (!source.empty()) text += ": " + source;
  }
  return advice;
}

}  // namespace

std::string Advice::Text(int64_t over) const {
  int64_t fits = 0;
  if (batch > 0 && growing > over) {
    fits = static_cast<int64_t>(static_cast<double>(growing - over) / static_cast<double>(growing) *
                                static_cast<double>(batch));
    const int64_t whole_tiles = fits >= 2048 ? 1024 : fits >= 16 ? 8 : 1;  // no padding on top
    fits = fits / whole_tiles * whole_tiles;
  }
  auto text = fmt::format("{}\nThat is {} too much.", tensors, FormatBytes(over));
  if (fits > 0)
    text += fmt::format(
        " If the first dimension, {}, is a batch (of one device), one of {} would "
        "fit.",
        batch, fits);
  return text + (fits > 0 ? " Otherwise use" : " Use") +
         " more chips or narrower types, or compute anew what gradients need (jax.checkpoint, "
         "tf.recompute_grad).";
}

int64_t TiledBytes(const Tiling& tiling, const HloShape& shape) {
  if (shape.layout && shape.layout->memory_space == kHostSpace) return 0;
  int64_t bytes = tiling.Bytes(BitsOf(shape.element_type), shape.dimensions);
  for (const auto& element : shape.tuple) bytes += TiledBytes(tiling, element);
  return bytes;
}

program::Roofline RooflineOf(const hardware::Generation& generation) {
  // Of the published bandwidth, libtpu reckons with so much: 737.7 of v5e's 819 GB/s.
  constexpr double kReached = 0.9007;
  const double devices = generation.devices_per_chip;
  return {.flops = generation.peak_bf16_flops / devices,
          .bytes = kReached * generation.hbm_bandwidth / devices,
          .vector_memory_bytes = generation.vector_memory_bytes * generation.cores_per_chip /
                                 generation.devices_per_chip};
}

Compiled Examine(const HloModule& module, const hardware::Generation& generation) {
  const Tiling tiling(generation);
  const program::Roofline roofline = RooflineOf(generation);
  Compiled compiled;
  compiled.memory = FootprintOf(module, tiling, roofline.vector_memory_bytes);
  compiled.cost = program::CostOf(module, roofline);
  compiled.advice = AdviceOn(module, tiling, compiled.memory, roofline.vector_memory_bytes);
  return compiled;
}

}  // namespace torus::tpu
