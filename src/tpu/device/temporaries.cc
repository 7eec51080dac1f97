// The program laid out as one line of instructions, and the values that live along it.
#include "tpu/device/temporaries.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tpu/device/compiled.h"

namespace torus::tpu {
namespace {

using program::HloComputation;
using program::HloInstruction;
using program::HloModule;
using program::HloShape;

// Nothing of their own is written: their result is made of their operands' memory.
constexpr std::string_view kAliases[] = {"add-dependency",       "bitcast", "get-tuple-element",
                                         "optimization-barrier", "reshape", "tuple"};

// What is not recomputed: its result costs work, or has an effect.
constexpr std::string_view kHeavy[] = {"all-gather",
                                       "all-reduce",
                                       "all-to-all",
                                       "cholesky",
                                       "collective-permute",
                                       "conditional",
                                       "convolution",
                                       "custom-call",
                                       "dot",
                                       "dynamic-slice",
                                       "fft",
                                       "fusion",
                                       "gather",
                                       "infeed",
                                       "ragged-dot",
                                       "recv",
                                       "reduce",
                                       "reduce-scatter",
                                       "reduce-window",
                                       "rng",
                                       "rng-bit-generator",
                                       "scatter",
                                       "select-and-scatter",
                                       "sort",
                                       "topk",
                                       "triangular-solve"};

bool Has(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// An array that an instruction makes.
struct Value {
  int64_t bytes = 0;
  size_t made = 0, last = 0;  // where in the line it is made, and used last
  bool light = false;         // may live in its users' registers
  bool kept = false;          // by a loop or as a result: must be written
  std::vector<int> operands;
  std::vector<int> users;
};

class Line {
 public:
  Line(const HloModule& module, const Tiling& tiling) : module_(module), tiling_(tiling) {
    const HloComputation* entry = module.entry();
    if (entry == nullptr) return;
    for (const int result : Lay(*entry, {})) {
      if (result == kNone) continue;
      values_[result].kept = true;
      values_[result].bytes = 0;  // counted as a result
    }
  }

  int64_t Peak(int64_t vector_memory_bytes) {
    Fuse();
    Share();
    return Sweep(vector_memory_bytes);
  }

 private:
  using Leaves = std::vector<int>;  // a value for each array of a shape, in order
  static constexpr int kNone = -1;  // an argument, which lives all along

  static size_t CountLeaves(const HloShape& shape) {
    if (!shape.is_tuple()) return 1;
    size_t count = 0;
    for (const auto& element : shape.tuple) count += CountLeaves(element);
    return count;
  }

  static void CollectLeaves(const HloShape& shape, std::vector<const HloShape*>& leaves) {
    if (!shape.is_tuple()) return leaves.push_back(&shape);
    for (const auto& element : shape.tuple) CollectLeaves(element, leaves);
  }

  // Appends a computation's instructions to the line; returns its result.
  Leaves Lay(const HloComputation& computation, const std::vector<Leaves>& arguments) {
    std::unordered_map<int64_t, Leaves> made;
    std::unordered_map<int64_t, const HloShape*> shapes;
    for (const auto& instruction : computation.instructions) {
      std::vector<Leaves> operands;
      for (const int64_t id : instruction.operands) operands.push_back(made[id]);
      ++now_;
      shapes[instruction.id] = &instruction.shape;
      const HloShape* first =
          instruction.operands.empty() ? nullptr : shapes[instruction.operands.front()];
      made[instruction.id] = LayOne(instruction, operands, arguments, first);
    }
    return made[computation.root_id];
  }

  Leaves LayOne(const HloInstruction& instruction, const std::vector<Leaves>& operands,
                const std::vector<Leaves>& arguments, const HloShape* first_shape) {
    const std::string_view op = instruction.opcode;
    if (op == "parameter") {
      const auto number = static_cast<size_t>(instruction.parameter_number);
      return number < arguments.size() ? arguments[number]
                                       : Leaves(CountLeaves(instruction.shape), kNone);
    }
    if (op == "fusion" || op == "call") return LayCalled(instruction, operands);
    if (op == "while") return LayLoop(instruction, operands);
    if (op == "conditional") return LayBranches(instruction, operands);
    for (const Leaves& leaves : operands) Use(leaves);
    if (op == "get-tuple-element" && first_shape != nullptr)
      return PartOf(*first_shape, operands.front(), instruction.tuple_index);
    if (op == "dynamic-update-slice") return operands.front();
    if (Has(kAliases, op)) {
      Leaves all;
      for (const Leaves& leaves : operands) all.insert(all.end(), leaves.begin(), leaves.end());
      all.resize(CountLeaves(instruction.shape), kNone);
      return all;
    }
    return Make(instruction, operands);
  }

  Leaves LayCalled(const HloInstruction& instruction, const std::vector<Leaves>& operands) {
    const auto* called =
        instruction.called.empty() ? nullptr : module_.Find(instruction.called.front());
    if (called == nullptr || !instruction.custom_call_target.empty())
      return Make(instruction, operands);
    Leaves result = Lay(*called, operands);
    result.resize(CountLeaves(instruction.shape), kNone);
    return result;
  }

  // A loop's values are those that it begins with; its body stands once in the line.
  Leaves LayLoop(const HloInstruction& loop, const std::vector<Leaves>& operands) {
    const Leaves carried = operands.empty() ? Leaves() : operands.front();
    Keep(carried);
    for (const int64_t id : loop.called) {
      const auto* computation = module_.Find(id);
      if (computation == nullptr) continue;
      const Leaves result = Lay(*computation, operands);
      ++now_;
      Use(result);
      Keep(result);
    }
    Use(carried);
    return carried;
  }

  Leaves LayBranches(const HloInstruction& conditional, const std::vector<Leaves>& operands) {
    for (const Leaves& leaves : operands) Use(leaves);
    for (size_t b = 0; b < conditional.called.size(); ++b) {
      const auto* branch = module_.Find(conditional.called[b]);
      if (branch == nullptr || b + 1 >= operands.size()) continue;
      Use(Lay(*branch, {operands[b + 1]}));
      Use(operands[b + 1]);
    }
    return Make(conditional, {});
  }

  Leaves PartOf(const HloShape& tuple, const Leaves& leaves, int64_t index) const {
    size_t begin = 0;
    for (int64_t i = 0; i < index && static_cast<size_t>(i) < tuple.tuple.size(); ++i)
      begin += CountLeaves(tuple.tuple[i]);
    const size_t count =
        static_cast<size_t>(index) < tuple.tuple.size() ? CountLeaves(tuple.tuple[index]) : 1;
    Leaves part(count, kNone);
    for (size_t i = 0; i < count && begin + i < leaves.size(); ++i) part[i] = leaves[begin + i];
    return part;
  }

  void Use(const Leaves& leaves) {
    for (const int value : leaves)
      if (value != kNone) values_[value].last = now_;
  }

  void Keep(const Leaves& leaves) {
    for (const int value : leaves)
      if (value != kNone) values_[value].kept = true;
  }

  // CPUs reckon bfloat16 in float32: what is narrowed right away was the narrow one.
  void Narrow(const Value& converted) {
    for (const int o : converted.operands)
      if (!values_[o].light) values_[o].bytes = std::min(values_[o].bytes, converted.bytes);
  }

  Leaves Make(const HloInstruction& instruction, const std::vector<Leaves>& operands) {
    std::vector<const HloShape*> shapes;
    CollectLeaves(instruction.shape, shapes);
    // The places of a pool's maxima, which the engine notes for the gradient and a TPU finds again.
    const bool light = !Has(kHeavy, instruction.opcode) ||
                       (instruction.opcode == "reduce-window" && shapes.size() > 1);
    Leaves results;
    for (const HloShape* shape : shapes) {
      Value value{.bytes = TiledBytes(tiling_, *shape), .made = now_, .last = now_, .light = light};
      for (const Leaves& leaves : operands) {
        for (const int operand : leaves)
          if (operand != kNone) value.operands.push_back(operand);
      }
      std::ranges::sort(value.operands);
      const auto repeated = std::ranges::unique(value.operands);
      value.operands.erase(repeated.begin(), repeated.end());
      if (instruction.opcode == "convert") Narrow(value);
      const int id = static_cast<int>(values_.size());
      for (const int operand : value.operands) values_[operand].users.push_back(id);
      values_.push_back(std::move(value));
      results.push_back(id);
    }
    return results;
  }

  // From the last value to the first: what lives in registers lets its operands live longer.
  void Fuse() {
    for (size_t v = values_.size(); v-- > 0;) {
      Value& value = values_[v];
      if (value.kept) continue;
      int looks = 100;
      // A quarter more is no reason to write: compilers fuse for the traffic, not for the space.
      if (value.light ? Longer(value, value.last, looks) <= value.bytes + value.bytes / 4
                      : EndsInItsUser(value)) {
        const size_t until = value.light ? value.last : values_[value.users.front()].made;
        for (const int operand : value.operands)
          values_[operand].last = std::max(values_[operand].last, until);
        value.bytes = 0;
      }
    }
  }

  // Bytes of the operands that would have to live on until `last`, or of what they are had from.
  // `looks` bounds the work.
  int64_t Longer(const Value& value, size_t last, int& looks) const {
    int64_t bytes = 0;
    for (const int o : value.operands) {
      const Value& operand = values_[o];
      if (operand.last >= last || bytes > 2 * value.bytes) continue;
      int64_t least = operand.bytes;
      if (operand.light && !operand.kept && looks-- > 0)
        least = std::min(least, Longer(operand, last, looks));
      bytes += least;
    }
    return bytes;
  }

  // A matrix unit's result goes through one element-wise user before it is written.
  bool EndsInItsUser(const Value& value) const {
    if (value.users.size() != 1) return false;
    const Value& user = values_[value.users.front()];
    return user.light && user.made == value.last && (user.bytes > 0 || user.kept);
  }

  // An element-wise result takes the place of an operand that ends with it.
  void Share() {
    for (Value& value : values_) {
      if (!value.light || value.bytes == 0) continue;
      for (const int o : value.operands) {
        Value& operand = values_[o];
        if (operand.last != value.made || operand.bytes < value.bytes) continue;
        operand.last = value.made - 1;
        break;
      }
    }
  }

  int64_t Sweep(int64_t vector_memory_bytes) const {
    std::vector<int64_t> all(now_ + 2), small(now_ + 2);
    for (const Value& value : values_) {
      if (value.last < value.made) continue;
      all[value.made] += value.bytes;
      all[value.last + 1] -= value.bytes;
      if (value.bytes > vector_memory_bytes / 2) continue;
      small[value.made] += value.bytes;
      small[value.last + 1] -= value.bytes;
    }
    int64_t peak = 0, live = 0, live_small = 0;
    for (size_t at = 0; at < all.size(); ++at) {
      live += all[at];
      live_small += small[at];
      peak = std::max(peak, live - std::min(live_small, vector_memory_bytes));
    }
    return peak;
  }

  const HloModule& module_;
  const Tiling& tiling_;
  std::vector<Value> values_;
  size_t now_ = 0;
};

}  // namespace

int64_t TemporaryBytes(const HloModule& module, const Tiling& tiling, int64_t vector_memory_bytes) {
  return Line(module, tiling).Peak(vector_memory_bytes);
}

}  // namespace torus::tpu
