// What collectives become. That the numbers are right, kernels/collectives_test.cc shows.
#include "tpu/program/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tpu/program/testing.h"

namespace torus::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HloShape Floats(std::vector<int64_t> dimensions) {
  return ArrayShape(ElementType::kF32, std::move(dimensions));
}

// A module of one collective of a parameter, which is its root.
HloModule ModuleOf(const char* opcode, const std::string& others = "") {
  ModuleBuilder m;
  const int64_t x = m.Add("parameter", Floats({4}));
  const int64_t collective = m.Add(opcode, Floats({4}), {x});
  m[collective].others = others;
  return m.Build();
}

// The same of a reduction by an operation of two parameters.
HloModule Reduced(const char* opcode, const char* operation) {
  HloModule module = ModuleOf(opcode);
  ModuleBuilder by;
  const int64_t a = by.Add("parameter", Floats({})), b = by.Add("parameter", Floats({}));
  by.Add(operation, Floats({}), {a, b});
  HloComputation computation = by.Build().computations.front();
  computation.id = 2;
  module.computations.front().instructions.back().called = {2};
  module.computations.push_back(std::move(computation));
  return module;
}

std::string Group(protozero::pbf_tag_type field, const std::vector<int64_t>& members) {
  std::string group, others;
  protozero::pbf_writer inside(group), writer(others);
  wire::AddInts(inside, 1, members);
  writer.add_message(field, group);
  return others;
}

const HloInstruction& RootOf(const HloModule& module) {
  return module.entry()->instructions.back();
}

TEST(CallCollectives, SaysWhatTheyAre) {
  HloModule module = Reduced("all-reduce", "add");
  EXPECT_EQ(CallCollectives(module), 1);
  EXPECT_EQ(RootOf(module).opcode, "custom-call");
  EXPECT_EQ(RootOf(module).custom_call_target, kCollectiveTarget);
  EXPECT_EQ(RootOf(module).backend_config, "{collective = array<i64: 0, 1, 0>, place = 0 : i64}");
  EXPECT_TRUE(RootOf(module).called.empty());
  const auto& operands = RootOf(module).operands;  // its own, and what makes the program dear
  ASSERT_EQ(operands.size(), 2);
  EXPECT_EQ(module.entry()->Find(operands[1])->opcode, "multiply");
  module = ModuleOf("all-gather", Group(49, {0, 2}) + Group(49, {1, 3}));
  module.computations.front().instructions.back().dimensions = {0};
  EXPECT_EQ(CallCollectives(module), 1);
  EXPECT_EQ(RootOf(module).backend_config,
            "{collective = array<i64: 2, 0, 0, 2, 0, 2, 2, 1, 3>, place = 0 : i64}");
}

TEST(CallCollectives, ReadsGroupsThatAreBoxes) {
  // [2,2]<=[2,2]T(1,0): {0,2},{1,3}
  std::string iota, list, others;
  protozero::pbf_writer box(iota), lists(list), writer(others);
  box.add_int64(1, 2);
  box.add_int64(2, 2);
  wire::AddInts(box, 3, {2, 2});
  wire::AddInts(box, 4, {1, 0});
  lists.add_message(2, iota);
  writer.add_message(87, list);
  HloModule module = ModuleOf("all-gather", others);
  EXPECT_EQ(CallCollectives(module), 1);
  EXPECT_THAT(RootOf(module).backend_config, HasSubstr("2, 0, 0, 2, 0, 2, 2, 1, 3"));
}

TEST(CallCollectives, LeavesOthersAlone) {
  HloModule module = ModuleOf("negate");
  EXPECT_EQ(CallCollectives(module), 0);
  EXPECT_EQ(RootOf(module).opcode, "negate");
  module = ModuleOf("replica-id");
  EXPECT_EQ(CallCollectives(module), 1);
  EXPECT_EQ(RootOf(module).custom_call_target, kReplicaTarget);
}

TEST(CallCollectives, RefusesWhatItCannot) {
  HloModule module = Reduced("all-reduce", "subtract");
  EXPECT_THAT(CallCollectives(module).error().message(), HasSubstr("a computation of its own"));
  module = ModuleOf("partition-id");
  EXPECT_EQ(CallCollectives(module).error().code(), Code::kUnimplemented);
}

TEST(Collective, ComesBackFromItsNumbers) {
  const Collective collective{.kind = CollectiveKind::kReduceScatter,
                              .reduction = Reduction::kMaximum,
                              .dimension = 3,
                              .groups = {{0, 1}, {2}}};
  const auto ints = collective.ToInts();
  EXPECT_THAT(ints, ElementsAre(1, 3, 3, 2, 0, 1, 1, 2));
  EXPECT_EQ(Collective::FromInts(ints), collective);
  for (size_t size = 0; size < ints.size(); ++size) {
    const auto part = Collective::FromInts(std::span(ints).first(size));
    EXPECT_EQ(part.has_value(), size == 3 || size == 6) << size;
  }
}

}  // namespace
}  // namespace torus::program
