// What ragged dots and ragged all-to-alls become. That the numbers are right, tests/libtpu shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/testing.h"

namespace torus::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HloShape Floats(std::vector<int64_t> dimensions) {
  return ArrayShape(ElementType::kF32, std::move(dimensions));
}
HloShape Ints(std::vector<int64_t> dimensions) {
  return ArrayShape(ElementType::kS32, std::move(dimensions));
}

// A module of a ragged dot of three parameters, which is its root.
HloModule RaggedDot(HloShape lhs, HloShape rhs, HloShape sizes, HloShape result,
                    const RaggedDotDimensions& dimensions) {
  ModuleBuilder m;
  const int64_t l = m.Add("parameter", std::move(lhs)), r = m.Add("parameter", std::move(rhs));
  const int64_t s = m.Add("parameter", std::move(sizes));
  const int64_t dot = m.Add("ragged-dot", std::move(result), {l, r, s});
  std::string numbers, ragged;
  protozero::pbf_writer dot_writer(numbers), ragged_writer(ragged);
  wire::AddInts(dot_writer, 1, dimensions.dot.lhs_contracting);
  wire::AddInts(dot_writer, 2, dimensions.dot.rhs_contracting);
  wire::AddInts(dot_writer, 3, dimensions.dot.lhs_batch);
  wire::AddInts(dot_writer, 4, dimensions.dot.rhs_batch);
  ragged_writer.add_message(1, numbers);
  wire::AddInts(ragged_writer, 2, dimensions.lhs_ragged);
  wire::AddInts(ragged_writer, 3, dimensions.rhs_group);
  m.Others(dot).add_message(90, ragged);
  return m.Build();
}

const HloInstruction& RootOf(const HloModule& module) {
  return *module.entry()->Find(module.entry()->root_id);
}
std::string OperandShape(const HloModule& module, size_t operand) {
  return module.entry()->Find(RootOf(module).operands[operand])->shape.ToString();
}

// sum over g, k of masked[g, m, k] * right[g, k, n]
TEST(RewriteRaggedDot, MakesADotOfAMaskedLeftSide) {
  HloModule module = RaggedDot(Floats({8, 4}), Floats({2, 4, 5}), Ints({2}), Floats({8, 5}),
                               {{{1}, {1}, {}, {}}, {0}, {0}});
  ASSERT_TRUE(*Rewrite(module));
  ASSERT_TRUE(ReadHlo(WriteHlo(module)));
  EXPECT_EQ(RootOf(module).opcode, "dot");
  EXPECT_FALSE(RaggedDotDimensionsOf(RootOf(module)));
  const auto dimensions = DotDimensionsOf(RootOf(module));
  ASSERT_TRUE(dimensions);
  EXPECT_THAT(dimensions->lhs_contracting, ElementsAre(2, 0));
  EXPECT_THAT(dimensions->rhs_contracting, ElementsAre(1, 0));
  EXPECT_EQ(OperandShape(module, 0), "f32[2,8,4]{2,1,0}");
  EXPECT_FALSE(*Rewrite(module));
}

TEST(RewriteRaggedDot, TakesSizesOfEachBatch) {
  HloModule module = RaggedDot(Floats({3, 8, 4}), Floats({3, 2, 4, 5}), Ints({3, 2}),
                               Floats({3, 8, 5}), {{{2}, {2}, {0}, {0}}, {1}, {1}});
  ASSERT_TRUE(*Rewrite(module));
  const auto dimensions = DotDimensionsOf(RootOf(module));
  EXPECT_THAT(dimensions->lhs_batch, ElementsAre(1));
  EXPECT_THAT(dimensions->rhs_batch, ElementsAre(0));
  EXPECT_EQ(OperandShape(module, 0), "f32[2,3,8,4]{3,2,1,0}");
}

// out[g, m, n] = sum over k of masked[g, k, m] * masked[g, k, n]
TEST(RewriteRaggedDot, MasksBothSidesOfAContractedOne) {
  HloModule module = RaggedDot(Floats({11, 5}), Floats({11, 7}), Ints({3}), Floats({3, 5, 7}),
                               {{{0}, {0}, {}, {}}, {0}, {}});
  ASSERT_TRUE(*Rewrite(module));
  const auto dimensions = DotDimensionsOf(RootOf(module));
  EXPECT_THAT(dimensions->lhs_contracting, ElementsAre(1));
  EXPECT_THAT(dimensions->lhs_batch, ElementsAre(0));
  EXPECT_THAT(dimensions->rhs_batch, ElementsAre(0));
  EXPECT_EQ(OperandShape(module, 0), "f32[3,11,5]{2,1,0}");
  EXPECT_EQ(OperandShape(module, 1), "f32[3,11,7]{2,1,0}");
}

TEST(RewriteRaggedDot, NeedsNoGroupsForARaggedBatch) {
  HloModule module = RaggedDot(Floats({6, 4, 5}), Floats({6, 5, 7}), Ints({2}), Floats({6, 4, 7}),
                               {{{2}, {1}, {0}, {0}}, {0}, {}});
  ASSERT_TRUE(*Rewrite(module));
  EXPECT_EQ(module.entry()->instructions.size(), 4u);
  EXPECT_EQ(RootOf(module).operands.size(), 2u);
}

TEST(RewriteRaggedDot, RefusesSizesThatDoNotFit) {
  HloModule module = RaggedDot(Floats({3, 8, 4}), Floats({3, 2, 4, 5}), Ints({4, 2}),
                               Floats({3, 8, 5}), {{{2}, {2}, {0}, {0}}, {1}, {1}});
  EXPECT_THAT(Rewrite(module).error().message(), HasSubstr("do not fit"));
}

// A module whose root is a ragged all-to-all over the groups {0, 1} and {2, 3}.
HloModule RaggedAllToAll(HloShape input, HloShape output, HloShape list) {
  ModuleBuilder m;
  std::vector<int64_t> operands{m.Add("parameter", std::move(input)), m.Add("parameter", output)};
  for (int i = 0; i < 4; ++i) operands.push_back(m.Add("parameter", list));
  const int64_t exchange = m.Add("ragged-all-to-all", output, operands);
  m[exchange].channel_id = 5;
  auto others = m.Others(exchange);
  for (const int64_t first : {0, 2}) {
    protozero::pbf_writer group(others, 49);
    wire::AddInts(group, 1, {first, first + 1});
  }
  return m.Build();
}

TEST(RewriteRaggedAllToAll, ChoosesRowsOfWhatAllSend) {
  HloModule module = RaggedAllToAll(Floats({3, 7}), Floats({4, 7}), Ints({6}));
  ASSERT_TRUE(*Rewrite(module));
  ASSERT_TRUE(ReadHlo(WriteHlo(module)));
  std::set<int64_t> channels;
  for (const auto& instruction : module.entry()->instructions) {
    if (instruction.opcode != "all-to-all") continue;
    EXPECT_GT(instruction.channel_id, 5);
    channels.insert(instruction.channel_id);
    EXPECT_EQ(wire::FindAllBytes(instruction.others, 49).size(), 2u);
  }
  EXPECT_EQ(channels.size(), 4u);  // the input and three lists
  EXPECT_EQ(RootOf(module).opcode, "select");
  EXPECT_EQ(RootOf(module).channel_id, 0);
  EXPECT_THAT(wire::FindAllBytes(RootOf(module).others, 49), IsEmpty());
  const auto* gather = module.entry()->Find(RootOf(module).operands[1]);
  EXPECT_EQ(gather->opcode, "gather");
  EXPECT_EQ(module.entry()->Find(gather->operands[0])->shape.ToString(), "f32[6,7]{1,0}");
  EXPECT_EQ(RootOf(module).operands[2], 2);  // rows that nobody sends stay
  EXPECT_FALSE(*Rewrite(module));
}

TEST(RewriteRaggedAllToAll, KeepsTheOutputWhereNothingCanMove) {
  HloModule module = RaggedAllToAll(Floats({0, 7}), Floats({4, 7}), Ints({2}));
  ASSERT_TRUE(*Rewrite(module));
  EXPECT_EQ(RootOf(module).opcode, "copy");
  EXPECT_THAT(RootOf(module).operands, ElementsAre(2));
}

TEST(RewriteRaggedAllToAll, RefusesWhatDoesNotFitItsGroups) {
  HloModule lists = RaggedAllToAll(Floats({3, 7}), Floats({4, 7}), Ints({3}));
  EXPECT_THAT(Rewrite(lists).error().message(), HasSubstr("multiple of the devices"));
  HloModule rows = RaggedAllToAll(Floats({3, 8}), Floats({4, 7}), Ints({2}));
  EXPECT_THAT(Rewrite(rows).error().message(), HasSubstr("differ"));
}

}  // namespace
}  // namespace torus::program
