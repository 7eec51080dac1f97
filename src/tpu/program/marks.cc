// One computation after the other: its instructions in the order of their schedule, marks between.
#include "tpu/program/marks.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "tpu/program/edit.h"
#include "tpu/program/hlo_attributes.h"
#include "tpu/program/wire.h"

namespace torus::program {
namespace {

// xla.HloModuleProto, HloScheduleProto (a map of computations), its InstructionSequence
constexpr protozero::pbf_tag_type kSchedule = 7, kSequences = 1, kKey = 1, kValue = 2,
                                  kInstructionIds = 1;
// xla.HloInstructionProto
constexpr protozero::pbf_tag_type kConstrainLayout = 56, kOperandShapes = 57, kHasSideEffect = 65,
                                  kAliasing = 74, kApiVersion = 77;
// xla.OutputOperandAliasing
constexpr protozero::pbf_tag_type kOutputIndex = 1, kOperandIndex = 2;
constexpr int kTypedFfi = 4;  // xla.CustomCallApiVersion

using Sequence = std::vector<int64_t>;
using Schedule = std::map<int64_t, Sequence>;  // by computation

Schedule ReadSchedule(const HloModule& module) {
  Schedule schedule;
  const auto message = wire::FindBytes(module.others, kSchedule).value_or("");
  for (const auto entry : wire::FindAllBytes(message, kSequences)) {
    const auto ids = wire::FindInts(wire::FindBytes(entry, kValue).value_or(""), kInstructionIds);
    schedule[wire::FindInt(entry, kKey).value_or(0)] = ids;
  }
  return schedule;
}

void WriteSchedule(const Schedule& schedule, HloModule& module) {
  module.others = wire::Without(module.others, kSchedule);
  protozero::pbf_writer others(module.others);
  protozero::pbf_writer message(others, kSchedule);
  for (const auto& [computation, ids] : schedule) {
    protozero::pbf_writer entry(message, kSequences);
    entry.add_int64(kKey, computation);
    protozero::pbf_writer sequence(entry, kValue);
    wire::AddInts(sequence, kInstructionIds, ids);
  }
}

// Names for memory that is there: nothing runs.
bool IsName(std::string_view opcode) {
  constexpr std::array<std::string_view, 8> kNames = {
      "parameter", "constant",       "tuple",  "get-tuple-element",
      "bitcast",   "add-dependency", "domain", "optimization-barrier"};
  return opcode == "after-all" || std::ranges::find(kNames, opcode) != kNames.end();
}

// Runs computations of its own, whose instructions are operations, too.
bool IsControlFlow(const HloInstruction& instruction) {
  const auto& op = instruction.opcode;
  if (op == "while" || op == "conditional") return true;
  // The engine makes one kernel of a small one.
  return op == "call" && !FrontendAttributesOf(instruction).contains("xla_cpu_small_call");
}

bool IsArray(const HloShape& shape) {
  return BitsOf(shape.element_type) > 0 &&
         std::ranges::find(shape.dynamic, true) == shape.dynamic.end();
}

// Marks one computation.
class Marker {
 public:
  Marker(const HloModule& module, HloComputation& computation, Sequence& sequence, Marks& marks)
      : computation_(computation),
        sequence_(sequence),
        is_entry_(computation.id == module.entry_computation_id),
        next_id_(NewId(module, computation)),
        marks_(marks) {}

  void Run() {
    std::unordered_map<int64_t, HloInstruction> old;
    for (auto& instruction : computation_.instructions) {
      Remember(instruction);
      old.emplace(instruction.id, std::move(instruction));
    }
    bool first = true;
    for (const int64_t id : std::exchange(sequence_, {})) {
      HloInstruction& instruction = old.at(id);
      if (!IsName(instruction.opcode)) {
        Begin(instruction, std::exchange(first, false));
      }
      Put(std::move(instruction));
    }
    Place({.program_begins = is_entry_ && first, .program_ends = is_entry_}, std::nullopt);
    computation_.instructions = std::move(made_);
    for (const auto& instruction : computation_.instructions) sequence_.push_back(instruction.id);
  }

 private:
  // What the choice of a gate asks of an instruction.
  struct Known {
    std::string opcode;
    HloShape shape;
    std::vector<int64_t> operands;
  };

  void Remember(const HloInstruction& instruction) {
    known_[instruction.id] = {instruction.opcode, instruction.shape, instruction.operands};
  }

  void Put(HloInstruction instruction) { made_.push_back(std::move(instruction)); }

  int64_t Make(std::string_view word, std::string opcode, HloShape shape, Sequence operands) {
    HloInstruction made{.id = next_id_++,
                        .opcode = std::move(opcode),
                        .shape = std::move(shape),
                        .operands = std::move(operands)};
    made.name = fmt::format("torus.{}.{}", word, made.id);
    Remember(made);
    Put(std::move(made));
    return made_.back().id;
  }

  int64_t MakeElement(int64_t tuple, int64_t index) {
    const HloShape shape = known_.at(tuple).shape.tuple[static_cast<size_t>(index)];
    const int64_t id = Make("element", "get-tuple-element", shape, {tuple});
    made_.back().tuple_index = index;
    return id;
  }

  // Whether the value lies in memory that a mark may stand for: not in a constant's.
  bool MayGate(int64_t id, bool parameters) const {
    const Known* known = &known_.at(id);
    if (!IsArray(known->shape)) return false;
    while (known->opcode == "bitcast") known = &known_.at(known->operands.front());
    return known->opcode != "constant" && (parameters || known->opcode != "parameter");
  }

  // An operand that can come from a mark; parameters are the second choice.
  std::optional<int64_t> FindGate(const Sequence& operands) const {
    for (const bool parameters : {false, true}) {
      const auto found =
          std::ranges::find_if(operands, [&](int64_t id) { return MayGate(id, parameters); });
      if (found != operands.end()) return *found;
    }
    return std::nullopt;
  }

  // Puts the mark before an operation, which waits for it if it can.
  void Begin(HloInstruction& instruction, bool first) {
    Mark mark{.program_begins = is_entry_ && first};
    auto gate = FindGate(instruction.operands);
    int64_t tuple = 0;
    for (const int64_t operand : instruction.operands) {
      if (gate) break;
      if (known_.at(operand).opcode != "tuple") continue;
      tuple = operand;
      gate = FindGate(known_.at(operand).operands);
    }
    const bool told = gate && !LeavesOf(instruction.shape).empty();
    const int number = static_cast<int>(marks_.operations.size());
    if (told) {
      mark.begins = number;
      marks_.operations.push_back({computation_.id, instruction.id});
    }
    const auto gated = Place(mark, gate);
    if (gate && tuple != 0) {
      Sequence elements = known_.at(tuple).operands;
      std::ranges::replace(elements, *gate, *gated);
      const HloShape shape = known_.at(tuple).shape;
      std::ranges::replace(instruction.operands, tuple, Make("tuple", "tuple", shape, elements));
    } else if (gate) {
      std::ranges::replace(instruction.operands, *gate, *gated);
    }
    last_ = instruction.id;
    last_runs_others_ = IsControlFlow(instruction);
    last_number_ = told ? number : Mark::kNone;
  }

  using Path = std::vector<int64_t>;
  static std::vector<Path> LeavesOf(const HloShape& shape) {
    if (IsArray(shape)) return {{}};
    std::vector<Path> leaves;
    for (size_t i = 0; i < shape.tuple.size(); ++i) {
      for (Path& rest : LeavesOf(shape.tuple[i])) {
        rest.insert(rest.begin(), static_cast<int64_t>(i));
        leaves.push_back(std::move(rest));
      }
    }
    return leaves;
  }

  // Values to read, so that the operation before has ended. One says so for all, but for a loop,
  // which may leave some of its values alone.
  Sequence ResultsOfLast() {
    Sequence results;
    if (last_ == 0) return results;
    for (const Path& path : LeavesOf(known_.at(last_).shape)) {
      int64_t id = last_;
      for (const int64_t index : path) id = MakeElement(id, index);
      results.push_back(id);
      if (!last_runs_others_) break;
    }
    return results;
  }

  // Puts a mark here. What stands for the gate behind it.
  std::optional<int64_t> Place(Mark mark, std::optional<int64_t> gate) {
    mark.ends = last_number_;
    Sequence operands = ResultsOfLast();
    if (gate) std::erase(operands, *gate);
    std::vector<HloShape> results;
    std::vector<size_t> aliased;  // the operand that each result is
    const auto pass_through = [&](int64_t id) {
      results.push_back(known_.at(id).shape);
      aliased.push_back(operands.size());
      operands.push_back(id);
    };
    if (gate) pass_through(*gate);
    if (chain_ != 0) {
      pass_through(chain_);
    } else {
      results.push_back(ArrayShape(ElementType::kU32, {}));
    }
    const int64_t call = Make("mark", "custom-call", TupleShape(results), operands);
    FinishCall(made_.back(), aliased);
    marks_.marks.push_back(mark);
    std::optional<int64_t> gated;
    if (gate) gated = MakeElement(call, 0);
    chain_ = MakeElement(call, gate ? 1 : 0);
    return gated;
  }

  void FinishCall(HloInstruction& call, const std::vector<size_t>& aliased) {
    call.custom_call_target = kMarkTarget;
    call.backend_config = fmt::format("{{{} = {} : i64}}", kMarkAttribute, marks_.marks.size());
    protozero::pbf_writer others(call.others);
    others.add_bool(kConstrainLayout, true);
    for (const int64_t operand : call.operands) {
      others.add_message(kOperandShapes, WriteShape(known_.at(operand).shape));
    }
    others.add_bool(kHasSideEffect, true);
    others.add_enum(kApiVersion, kTypedFfi);
    for (size_t result = 0; result < aliased.size(); ++result) {
      protozero::pbf_writer alias(others, kAliasing);
      wire::AddInts(alias, kOutputIndex, {static_cast<int64_t>(result)});
      alias.add_int64(kOperandIndex, static_cast<int64_t>(aliased[result]));
    }
  }

  HloComputation& computation_;
  Sequence& sequence_;
  const bool is_entry_;
  int64_t next_id_;
  Marks& marks_;
  std::unordered_map<int64_t, Known> known_;
  std::vector<HloInstruction> made_;
  int64_t chain_ = 0;  // what the last mark passed on to the next
  int64_t last_ = 0;   // the operation before
  bool last_runs_others_ = false;
  int last_number_ = Mark::kNone;
};

// The entry and what its control flow runs, to any depth.
std::vector<int64_t> Running(const HloModule& module) {
  std::vector<int64_t> found{module.entry_computation_id};
  std::unordered_set<int64_t> seen(found.begin(), found.end());
  for (size_t i = 0; i < found.size(); ++i) {
    for (const auto& instruction : module.Find(found[i])->instructions) {
      if (!IsControlFlow(instruction)) continue;
      for (const int64_t id : instruction.called) {
        if (seen.insert(id).second) found.push_back(id);
      }
    }
  }
  return found;
}

bool Covers(const Sequence& sequence, const HloComputation& computation) {
  const std::unordered_set<int64_t> scheduled(sequence.begin(), sequence.end());
  return scheduled.size() == computation.instructions.size() &&
         scheduled.size() == sequence.size() &&
         std::ranges::all_of(computation.instructions, [&](const HloInstruction& instruction) {
           return scheduled.contains(instruction.id);
         });
}

}  // namespace

Result<Marks> AddMarks(HloModule& module) {
  try {
    Schedule schedule = ReadSchedule(module);
    Marks marks;
    for (const int64_t id : Running(module)) {
      HloComputation& computation = *const_cast<HloComputation*>(module.Find(id));
      Sequence& sequence = schedule[id];
      if (!Covers(sequence, computation)) {
        return InvalidArgument("The computation '{}' of the HLO module '{}' has no schedule.",
                               computation.name, module.name);
      }
      Marker(module, computation, sequence, marks).Run();
    }
    WriteSchedule(schedule, module);
    return marks;
  } catch (const protozero::exception& error) {
    return InvalidArgument("The HLO module '{}' is malformed: {}.", module.name, error.what());
  }
}

}  // namespace torus::program
