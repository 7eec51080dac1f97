#include "tpu/program/marks.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tpu/program/testing.h"

namespace torus::program {
namespace {

using testing::ElementsAre;

const HloShape kVector = ArrayShape(ElementType::kF32, {8});

// The schedule of every computation, in the order of its instructions: HloScheduleProto.
void Schedule(HloModule& module) {
  protozero::pbf_writer others(module.others);
  protozero::pbf_writer schedule(others, 7);
  for (const auto& computation : module.computations) {
    protozero::pbf_writer entry(schedule, 1);
    entry.add_int64(1, computation.id);
    protozero::pbf_writer sequence(entry, 2);
    std::vector<int64_t> ids;
    for (const auto& instruction : computation.instructions) ids.push_back(instruction.id);
    wire::AddInts(sequence, 1, ids);
  }
}

std::vector<int64_t> ScheduleOf(const HloModule& module, int64_t computation) {
  const auto schedule = wire::FindBytes(module.others, 7).value_or("");
  for (const auto entry : wire::FindAllBytes(schedule, 1)) {
    if (wire::FindInt(entry, 1) != computation) continue;
    return wire::FindInts(wire::FindBytes(entry, 2).value_or(""), 1);
  }
  return {};
}

std::vector<std::string> Opcodes(const HloComputation& computation) {
  std::vector<std::string> opcodes;
  for (const auto& each : computation.instructions) {
    opcodes.push_back(each.custom_call_target.empty() ? each.opcode : "mark");
  }
  return opcodes;
}

const HloInstruction& Only(const HloComputation& computation, std::string_view opcode) {
  return *std::ranges::find(computation.instructions, opcode, &HloInstruction::opcode);
}

// Whether the operation takes a value that comes out of a mark.
bool Waits(const HloComputation& computation, const HloInstruction& operation) {
  return std::ranges::any_of(operation.operands, [&](int64_t id) {
    const auto* operand = computation.Find(id);
    return operand->opcode == "get-tuple-element" &&
           computation.Find(operand->operands[0])->custom_call_target == kMarkTarget;
  });
}

HloModule TwoOperations() {
  ModuleBuilder builder;
  const auto p = builder.Add("parameter", kVector);
  const auto tanh = builder.Add("tanh", kVector, {p});
  builder.Add("add", kVector, {tanh, p});
  HloModule module = builder.Build();
  Schedule(module);
  return module;
}

TEST(MarksTest, StandBeforeBetweenAndBehindOperations) {
  HloModule module = TwoOperations();
  const auto marks = AddMarks(module);
  ASSERT_TRUE(marks.has_value()) << marks.error().ToString();
  const auto& entry = *module.entry();
  EXPECT_THAT(Opcodes(entry), ElementsAre("parameter", "mark", "get-tuple-element",
                                          "get-tuple-element", "tanh", "mark", "get-tuple-element",
                                          "get-tuple-element", "add", "mark", "get-tuple-element"));
  EXPECT_TRUE(Waits(entry, Only(entry, "tanh")));
  EXPECT_TRUE(Waits(entry, Only(entry, "add")));
  EXPECT_EQ(entry.root_id, Only(entry, "add").id);
  std::vector<int64_t> ids;
  for (const auto& each : entry.instructions) ids.push_back(each.id);
  EXPECT_EQ(ScheduleOf(module, entry.id), ids);
  // An engine reads it.
  EXPECT_TRUE(ReadHlo(WriteHlo(module)).has_value());
}

TEST(MarksTest, SayWhatEndsAndBegins) {
  HloModule module = TwoOperations();
  const auto marks = AddMarks(module);
  ASSERT_TRUE(marks.has_value());
  ASSERT_EQ(marks->marks.size(), 3);
  const Mark first = marks->marks[0], second = marks->marks[1], third = marks->marks[2];
  EXPECT_EQ(std::tuple(first.ends, first.begins, first.program_begins, first.program_ends),
            std::tuple(Mark::kNone, 0, true, false));
  EXPECT_EQ(std::tuple(second.ends, second.begins, second.program_begins, second.program_ends),
            std::tuple(0, 1, false, false));
  EXPECT_EQ(std::tuple(third.ends, third.begins, third.program_begins, third.program_ends),
            std::tuple(1, Mark::kNone, false, true));
  ASSERT_EQ(marks->operations.size(), 2);
  EXPECT_EQ(module.entry()->Find(marks->operations[0].instruction)->opcode, "tanh");
}

TEST(MarksTest, PassMemoryThrough) {
  HloModule module = TwoOperations();
  ASSERT_TRUE(AddMarks(module).has_value());
  for (const auto& call : module.entry()->instructions) {
    if (call.custom_call_target.empty()) continue;
    // output_operand_aliasing = 74: each result but the first mark's chain is an operand's memory.
    for (const auto alias : wire::FindAllBytes(call.others, 74)) {
      const auto result = wire::FindInts(alias, 1);
      const auto operand = wire::FindInt(alias, 2).value_or(0);
      ASSERT_EQ(result.size(), 1);
      EXPECT_EQ(
          call.shape.tuple[static_cast<size_t>(result[0])].ToString(),
          module.entry()->Find(call.operands[static_cast<size_t>(operand)])->shape.ToString());
    }
  }
}

TEST(MarksTest, AnOperationOfConstantsHasNone) {
  ModuleBuilder builder;
  const auto constant = builder.Add("constant", kVector);
  const auto negate = builder.Add("negate", kVector, {constant});
  builder.Add("abs", kVector, {negate});
  HloModule module = builder.Build();
  Schedule(module);
  const auto marks = AddMarks(module);
  ASSERT_TRUE(marks.has_value());
  ASSERT_EQ(marks->operations.size(), 1);
  EXPECT_EQ(module.entry()->Find(marks->operations[0].instruction)->opcode, "abs");
  EXPECT_FALSE(Waits(*module.entry(), Only(*module.entry(), "negate")));
  EXPECT_TRUE(marks->marks.front().program_begins);
  EXPECT_TRUE(marks->marks.back().program_ends);
}

// while (...) over a tuple, with a body of one operation.
HloModule Loop() {
  ModuleBuilder builder;
  const auto p = builder.Add("parameter", kVector);
  const auto copy = builder.Add("copy", kVector, {p});
  const auto state = builder.Add("tuple", TupleShape({kVector, kVector}), {copy, p});
  const auto loop = builder.Add("while", TupleShape({kVector, kVector}), {state});
  builder[loop].called = {2};
  HloModule module = builder.Build();
  HloComputation body{.id = 2, .name = "body"};
  body.instructions.push_back(
      {.id = 10, .name = "s", .opcode = "parameter", .shape = TupleShape({kVector, kVector})});
  body.instructions.push_back(
      {.id = 11, .name = "g", .opcode = "get-tuple-element", .shape = kVector, .operands = {10}});
  body.instructions.push_back(
      {.id = 12, .name = "n", .opcode = "negate", .shape = kVector, .operands = {11}});
  body.instructions.push_back({.id = 13,
                               .name = "t",
                               .opcode = "tuple",
                               .shape = TupleShape({kVector, kVector}),
                               .operands = {12, 11}});
  body.root_id = 13;
  module.computations.insert(module.computations.begin(), body);
  Schedule(module);
  return module;
}

TEST(MarksTest, GoIntoLoopsAndWaitForAllThatALoopLeaves) {
  HloModule module = Loop();
  const auto marks = AddMarks(module);
  ASSERT_TRUE(marks.has_value()) << marks.error().ToString();
  EXPECT_EQ(marks->operations.size(), 3);  // copy, while, negate
  const HloComputation& body = *module.Find(2);
  EXPECT_TRUE(Waits(body, Only(body, "negate")));
  EXPECT_EQ(std::ranges::count(Opcodes(body), "mark"), 2);
  // The loop's argument is another tuple, one of whose elements comes out of a mark.
  const HloComputation& entry = *module.entry();
  const auto& loop = Only(entry, "while");
  EXPECT_TRUE(Waits(entry, *entry.Find(loop.operands[0])));
  // The mark behind the loop reads both of its results.
  const auto last = std::find_if(
      entry.instructions.rbegin(), entry.instructions.rend(),
      [](const HloInstruction& each) { return each.custom_call_target == kMarkTarget; });
  EXPECT_EQ(std::ranges::count_if(last->operands,
                                  [&](int64_t id) {
                                    const auto* operand = entry.Find(id);
                                    return operand->opcode == "get-tuple-element" &&
                                           operand->operands[0] == loop.id;
                                  }),
            2);
  // Ids stay unique.
  EXPECT_TRUE(ReadHlo(WriteHlo(module)).has_value());
}

TEST(MarksTest, NeedASchedule) {
  ModuleBuilder builder;
  builder.Add("abs", kVector, {builder.Add("parameter", kVector)});
  HloModule module = builder.Build();
  const auto marks = AddMarks(module);
  ASSERT_FALSE(marks.has_value());
  EXPECT_THAT(marks.error().message(), testing::HasSubstr("has no schedule"));
}

}  // namespace
}  // namespace torus::program
