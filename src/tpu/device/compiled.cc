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

struct Value {
  const HloInstruction* instruction;
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
      if (new_memory) values.push_back({&instruction, TiledBytes(tiling, instruction.shape)});
    }
  }
  std::ranges::stable_sort(values, std::ranges::greater(), &Value::bytes);
  return values;
}

int64_t Leading(const HloShape& shape) {
  return shape.dimensions.empty() ? 0 : shape.dimensions.front();
}

// Whether the first dimension of the largest value may be a batch's: it is an argument's, too.
void FindBatch(const HloModule& module, const std::vector<Value>& values, const Tiling& tiling,
               Advice& advice) {
  const int64_t batch = values.empty() ? 0 : Leading(values.front().instruction->shape);
  if (batch < 2 || module.entry() == nullptr) return;
  for (const auto& instruction : module.entry()->instructions) {
    if (instruction.opcode != "parameter") continue;
    if (Leading(instruction.shape) == batch) {
      advice.batch = batch;
    } else {
      advice.fixed += TiledBytes(tiling, instruction.shape);
    }
  }
}

Advice AdviceOn(const HloModule& module, const Tiling& tiling, const Footprint& memory) {
  const auto values = ValuesOf(module, tiling);
  Advice advice;
  FindBatch(module, values, tiling, advice);
  std::string& text = advice.tensors;
  text = fmt::format(
      "\nArguments {}, outputs {} ({} of them in the place of arguments), temporaries {}; sizes "
      "are of one device, with the padding of tiles.\nLargest tensors:",
      FormatBytes(memory.arguments), FormatBytes(memory.outputs), FormatBytes(memory.aliased),
      FormatBytes(memory.temporaries));
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, values.size()); ++i) {
    const auto& [instruction, bytes] = values[i];
    text += fmt::format("\n  {} {} {}", FormatBytes(bytes), instruction->shape.ToString(),
                        instruction->opcode);
    const int64_t dense = Dense(instruction->shape);
    if (bytes > dense + dense / 8)
      text += fmt::format(", {} of it padding", FormatBytes(bytes - dense));
    const auto source = SourceText(module, *instruction);
    if (!source.empty()) text += ": " + source;
  }
  return advice;
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

}  // namespace

std::string Advice::Text(int64_t needed, int64_t available) const {
  int64_t fits = 0;
  if (batch > 0 && needed > 0 && available > 0) {
    fits = static_cast<int64_t>(static_cast<double>(available) / static_cast<double>(needed) *
                                static_cast<double>(batch));
    const int64_t whole_tiles = fits >= 2048 ? 1024 : fits >= 16 ? 8 : 1;  // no padding on top
    fits = fits / whole_tiles * whole_tiles;
  }
  if (fits == 0) return tensors + "\nUse more chips, narrower types or jax.checkpoint.";
  return tensors + fmt::format(
                       "\nIf the first dimension, {}, is a batch, one of {} would fit. Otherwise "
                       "use more chips, narrower types or jax.checkpoint.",
                       batch, fits);
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
  compiled.advice = AdviceOn(module, tiling, compiled.memory);
  return compiled;
}

}  // namespace torus::tpu
