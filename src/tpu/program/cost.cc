// One function a kind of instruction.
#include "tpu/program/cost.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "tpu/program/hlo_attributes.h"

namespace torus::program {
namespace {

using Names = std::set<std::string_view>;

// No work and no traffic: names for memory that is there.
bool IsFree(std::string_view opcode) {
  static const auto& names = *new Names{
      "after-all", "add-dependency",       "bitcast", "constant",     "get-tuple-element",
      "parameter", "optimization-barrier", "tuple",   "partition-id", "replica-id"};
  return names.contains(opcode);
}

// Traffic and no work.
bool OnlyMoves(std::string_view opcode) {
  static const auto& names = *new Names{"all-gather",
                                        "all-to-all",
                                        "broadcast",
                                        "collective-permute",
                                        "concatenate",
                                        "copy",
                                        "dynamic-slice",
                                        "dynamic-update-slice",
                                        "gather",
                                        "iota",
                                        "pad",
                                        "reshape",
                                        "reverse",
                                        "slice",
                                        "transpose",
                                        "bitcast-convert",
                                        "get-dimension-size",
                                        "infeed",
                                        "outfeed",
                                        "recv",
                                        "recv-done",
                                        "send",
                                        "send-done",
                                        "copy-start",
                                        "copy-done",
                                        "all-gather-start",
                                        "all-gather-done",
                                        "domain"};
  return names.contains(opcode);
}

bool IsTranscendental(std::string_view opcode) {
  static const auto& names = *new Names{
      "atan2", "cbrt",         "cosine",   "erf",   "exponential", "exponential-minus-one",
      "log",   "log-plus-one", "logistic", "power", "rsqrt",       "sine",
      "sqrt",  "tan",          "tanh",     "acos",  "acosh",       "asin",
      "asinh", "atanh",        "cosh",     "sinh"};
  return names.contains(opcode);
}

double Elements(const HloShape& shape) {
  if (!shape.is_tuple()) return static_cast<double>(shape.elements());
  double sum = 0;
  for (const auto& part : shape.tuple) sum += Elements(part);
  return sum;
}

double Bytes(const HloShape& shape) {
  double bytes =
      static_cast<double>(shape.elements()) * std::max(4, BitsOf(shape.element_type)) / 8;
  if (BitsOf(shape.element_type) == 0) bytes = 0;
  for (const auto& part : shape.tuple) bytes += Bytes(part);
  return bytes;
}

bool IsVector(const HloShape& shape) {
  return std::ranges::count_if(shape.dimensions, [](int64_t size) { return size > 1; }) < 2;
}

double Dimension(const HloShape& shape, int64_t at) {
  const auto i = static_cast<size_t>(at);
  return i < shape.dimensions.size() ? static_cast<double>(shape.dimensions[i]) : 1;
}

// Pairs of a place in the output and one in the kernel that meet a real element of the input.
double ValidPairs(const WindowDimension& window, int64_t input, int64_t output) {
  const int64_t base = std::max<int64_t>(window.base_dilation, 1);
  const int64_t step = std::max<int64_t>(window.window_dilation, 1);
  const int64_t reach = (input - 1) * base;
  constexpr int64_t kMany = 1 << 22;  // more is not worth counting one by one
  if (window.size * output > kMany) return static_cast<double>(window.size * output);
  int64_t pairs = 0;
  for (int64_t k = 0; k < window.size; ++k) {
    for (int64_t o = 0; o < output; ++o) {
      const int64_t at = o * std::max<int64_t>(window.stride, 1) - window.padding_low + k * step;
      pairs += at >= 0 && at <= reach && at % base == 0;
    }
  }
  return static_cast<double>(pairs);
}

// Counts one computation and what it calls; each called computation once.
class Counter {
 public:
  Counter(const HloModule& module, const Roofline& roofline) : roofline_(roofline) {
    for (const auto& computation : module.computations)
      computations_[computation.id] = &computation;
  }

  // The instructions of a computation whose values lie in memory.
  Cost Memory(int64_t id, bool entry) {
    Cost sum;
    const HloComputation* computation = Find(id);
    if (computation == nullptr) return sum;
    const Scope scope(*computation);
    for (const auto& instruction : computation->instructions) {
      Cost cost = Instruction(instruction, scope, entry);
      sum.Add(cost);
      each_[instruction.id] = std::move(cost);
    }
    return sum;
  }

  // Of those instructions.
  std::unordered_map<int64_t, Cost> TakeEach() { return std::move(each_); }

 private:
  struct Scope {
    explicit Scope(const HloComputation& computation) {
      for (const auto& each : computation.instructions) by_id[each.id] = &each;
    }
    const HloShape& shape(int64_t id) const { return by_id.at(id)->shape; }

    std::unordered_map<int64_t, const HloInstruction*> by_id;
  };

  const HloComputation* Find(int64_t id) const {
    const auto found = computations_.find(id);
    return found == computations_.end() ? nullptr : found->second;
  }

  Cost Instruction(const HloInstruction& instruction, const Scope& scope, bool entry) {
    const auto& op = instruction.opcode;
    if (IsFree(op)) return {};
    if (op == "while" || op == "call" || op == "conditional") {
      Cost sum;
      for (const int64_t id : instruction.called) sum.Add(Memory(id, entry && op == "call"));
      return sum;
    }
    Cost cost = Work(instruction, scope);
    Traffic(instruction, scope, cost);
    cost.seconds = std::max(roofline_.flops > 0 ? cost.flops / roofline_.flops : 0,
                            roofline_.bytes > 0 ? cost.bytes / roofline_.bytes : 0);
    Prefetch(instruction, scope, entry, cost);
    return cost;
  }

  void Traffic(const HloInstruction& instruction, const Scope& scope, Cost& cost) const {
    const auto& op = instruction.opcode;
    const double result = Bytes(instruction.shape);
    cost.output_bytes = result;
    for (const int64_t operand : instruction.operands) {
      double bytes = Bytes(scope.shape(operand));
      // They read what they return, not the whole.
      if (cost.operand_bytes.empty() && (op == "dynamic-slice" || op == "slice" || op == "gather"))
        bytes = result;
      cost.operand_bytes.push_back(bytes);
    }
    if (op == "dynamic-update-slice" && cost.operand_bytes.size() > 1) {
      cost.operand_bytes[0] = 0;
      cost.output_bytes = cost.operand_bytes[1];
    }
    const double transposed = TransposedIn(instruction);
    if (transposed > 0 && !cost.operand_bytes.empty()) {
      cost.operand_bytes[0] += transposed;
      cost.output_bytes += transposed;
    }
    cost.bytes = cost.output_bytes;
    for (const double bytes : cost.operand_bytes) cost.bytes += bytes;
  }

  // Bytes that a fusion transposes: libtpu does that in an operation before it.
  double TransposedIn(const HloInstruction& instruction) const {
    double bytes = 0;
    if (instruction.opcode != "fusion") return bytes;
    for (const int64_t id : instruction.called) {
      const auto* computation = Find(id);
      if (computation == nullptr) continue;
      for (const auto& each : computation->instructions) {
        if (each.opcode == "transpose" && each.id != computation->root_id) {
          bytes += Bytes(each.shape);
        }
      }
    }
    return bytes;
  }

  // libtpu's copy of an argument into the vector memory.
  void Prefetch(const HloInstruction& instruction, const Scope& scope, bool entry, Cost& cost) {
    if (!ReadsTwice(instruction)) return;
    const HloInstruction* largest = nullptr;
    for (const int64_t id : instruction.operands) {
      const auto* operand = scope.by_id.at(id);
      // An argument of the program, or what a loop's body is handed on.
      if (operand->opcode != (entry ? "parameter" : "get-tuple-element")) continue;
      if (largest == nullptr || Bytes(operand->shape) > Bytes(largest->shape)) largest = operand;
    }
    if (largest == nullptr || !prefetched_.insert(largest).second) return;
    const double bytes = Bytes(largest->shape);
    if (bytes > static_cast<double>(roofline_.vector_memory_bytes)) return;
    cost.operand_bytes[0] += bytes;
    cost.output_bytes += 3 * bytes;
    cost.bytes += 4 * bytes;
    if (roofline_.bytes > 0) cost.seconds += 4 * bytes / roofline_.bytes;
  }

  // Whether it is, or has in it, what gathers many elements into one.
  bool ReadsTwice(const HloInstruction& instruction) const {
    static const auto& names =
        *new Names{"convolution", "dot", "gather", "reduce", "reduce-window", "sort", "scatter"};
    // A product with a vector is bound by reading the matrix once.
    if (instruction.opcode == "dot" && IsVector(instruction.shape)) return false;
    if (names.contains(instruction.opcode)) return true;
    if (instruction.opcode != "fusion") return false;
    for (const int64_t id : instruction.called) {
      const auto* computation = Find(id);
      if (computation == nullptr) continue;
      if (std::ranges::any_of(computation->instructions,
                              [this](const auto& each) { return ReadsTwice(each); }))
        return true;
    }
    return false;
  }

  // Flops and transcendentals alone.
  Cost Work(const HloInstruction& instruction, const Scope& scope) {
    const auto& op = instruction.opcode;
    const double elements = Elements(instruction.shape);
    Cost cost;
    if (op == "gather") {  // its indices are brought within bounds
      cost.flops = Elements(scope.shape(instruction.operands.back()));
    } else if (IsFree(op) || OnlyMoves(op)) {
      return cost;
    } else if (IsTranscendental(op)) {
      cost.transcendentals = elements;
    } else if (op == "dot") {
      cost.flops = DotFlops(instruction, scope);
    } else if (op == "convolution") {
      cost.flops = ConvolutionFlops(instruction, scope);
    } else if (op == "fusion" || op == "call" || op == "while" || op == "conditional" ||
               op == "async-start") {
      for (const int64_t id : instruction.called) cost.Add(WorkOf(id));
    } else if (op == "map") {
      Scale(cost, instruction, elements);
    } else if (op == "reduce" || op == "all-reduce" || op == "reduce-scatter") {
      const double input = Elements(scope.shape(instruction.operands.front()));
      Scale(cost, instruction, op == "reduce" ? input - ArrayElements(instruction.shape) : input);
    } else if (op == "reduce-window") {
      double window = 1;
      for (const auto& dimension : WindowOf(instruction)) {
        window *= static_cast<double>(dimension.size);
      }
      Scale(cost, instruction, ArrayElements(instruction.shape) * (window - 1));
    } else if (op == "scatter") {
      Scale(cost, instruction, Elements(scope.shape(instruction.operands.back())));
    } else if (op == "select-and-scatter") {
      double window = 1;
      for (const auto& dimension : WindowOf(instruction)) {
        window *= static_cast<double>(dimension.size);
      }
      cost.flops = Elements(scope.shape(instruction.operands[1])) * window;
    } else if (op == "sort") {
      const double count = ArrayElements(instruction.shape);
      cost.flops = count * std::ceil(std::log2(std::max(count, 2.0)));
    } else if (op == "triangular-solve") {
      const auto& matrix = scope.shape(instruction.operands.front());
      const auto last = static_cast<int64_t>(matrix.dimensions.size()) - 1;
      cost.flops = elements * Dimension(matrix, last);
    } else if (op == "cholesky") {
      const auto last = static_cast<int64_t>(instruction.shape.dimensions.size()) - 1;
      cost.flops = elements * Dimension(instruction.shape, last) / 3;
    } else if (op == "fft") {
      double length = 1;
      for (const int64_t each : FftLengthsOf(instruction)) length *= static_cast<double>(each);
      cost.flops = 8 * elements * std::log2(std::max(length, 2.0));
    } else if (op == "rng" || op == "rng-bit-generator") {
      cost.transcendentals = elements;
    } else if (op != "custom-call") {
      cost.flops = elements;
    }
    return cost;
  }

  static double ArrayElements(const HloShape& shape) {
    return Elements(shape.is_tuple() && !shape.tuple.empty() ? shape.tuple.front() : shape);
  }

  Cost WorkOf(int64_t id) {
    Cost sum;
    const auto* computation = Find(id);
    if (computation == nullptr) return sum;
    const Scope scope(*computation);
    for (const auto& instruction : computation->instructions) sum.Add(Work(instruction, scope));
    return sum;
  }

  // The called computation's work, `times`.
  void Scale(Cost& cost, const HloInstruction& instruction, double times) {
    for (const int64_t id : instruction.called) cost.Add(WorkOf(id));
    cost.flops *= std::max(times, 0.0);
    cost.transcendentals *= std::max(times, 0.0);
  }

  static double DotFlops(const HloInstruction& dot, const Scope& scope) {
    double contracted = 1;
    if (const auto dimensions = DotDimensionsOf(dot)) {
      for (const int64_t at : dimensions->lhs_contracting) {
        contracted *= Dimension(scope.shape(dot.operands.front()), at);
      }
    }
    return 2 * Elements(dot.shape) * contracted;
  }

  static double ConvolutionFlops(const HloInstruction& convolution, const Scope& scope) {
    const auto dimensions = ConvolutionDimensionsOf(convolution);
    if (!dimensions || convolution.operands.size() < 2) return 0;
    const auto& input = scope.shape(convolution.operands[0]);
    const auto& kernel = scope.shape(convolution.operands[1]);
    const auto& output = convolution.shape;
    double flops = 2 * Dimension(output, dimensions->output_batch) *
                   Dimension(output, dimensions->output_feature) *
                   Dimension(kernel, dimensions->kernel_input_feature) /
                   static_cast<double>(std::max<int64_t>(dimensions->batch_groups, 1));
    const auto window = WindowOf(convolution);
    for (size_t i = 0; i < window.size() && i < dimensions->input_spatial.size(); ++i) {
      flops *= ValidPairs(window[i],
                          static_cast<int64_t>(Dimension(input, dimensions->input_spatial[i])),
                          static_cast<int64_t>(Dimension(output, dimensions->output_spatial[i])));
    }
    return flops;
  }

  const Roofline roofline_;
  std::unordered_map<int64_t, const HloComputation*> computations_;
  std::set<const HloInstruction*> prefetched_;
  std::unordered_map<int64_t, Cost> each_;
};

}  // namespace

void Cost::Add(const Cost& other) {
  flops += other.flops;
  transcendentals += other.transcendentals;
  bytes += other.bytes;
  output_bytes += other.output_bytes;
  seconds += other.seconds;
  operand_bytes.resize(std::max(operand_bytes.size(), other.operand_bytes.size()));
  for (size_t i = 0; i < other.operand_bytes.size(); ++i) {
    operand_bytes[i] += other.operand_bytes[i];
  }
}

Cost CostOf(const HloModule& module, const Roofline& roofline) {
  return Counter(module, roofline).Memory(module.entry_computation_id, true);
}

std::unordered_map<int64_t, Cost> CostsOf(const HloModule& module, const Roofline& roofline) {
  Counter counter(module, roofline);
  counter.Memory(module.entry_computation_id, true);
  return counter.TakeEach();
}

}  // namespace torus::program
