#include "tpu/program/hlo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/wire.h"

namespace torus::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

HloInstruction Parameter(int64_t id, HloShape shape) {
  return {.id = id, .name = "p", .opcode = "parameter", .shape = std::move(shape)};
}

// f(x) = x . x, with fields of which Torus knows nothing at every level.
HloModule Dot() {
  HloModule module{.id = 7, .name = "m", .entry_computation_name = "e", .entry_computation_id = 3};
  HloComputation entry{.id = 3, .name = "e", .root_id = 2};
  entry.instructions.push_back(Parameter(1, ArrayShape(ElementType::kF32, {4, 4})));
  HloInstruction dot{.id = 2, .name = "d", .opcode = "dot", .operands = {1, 1}};
  dot.shape = ArrayShape(ElementType::kF32, {4, 4});
  protozero::pbf_writer others(dot.others);
  {
    protozero::pbf_writer numbers(others, 30);
    wire::AddInts(numbers, 1, {1});
    wire::AddInts(numbers, 2, {0});
  }
  others.add_string(9999, "of a newer XLA");
  others.add_fixed64(9998, 12);
  dot.shape.layout->tiles = {{8, 128}};
  dot.shape.layout->memory_space = 5;
  entry.instructions.push_back(dot);
  module.computations.push_back(entry);
  protozero::pbf_writer(module.others).add_string(9997, "also");
  return module;
}

TEST(Hlo, WritesWhatItRead) {
  const std::string bytes = WriteHlo(Dot());
  const auto module = ReadHlo(bytes);
  ASSERT_TRUE(module) << module.error().ToString();
  EXPECT_EQ(WriteHlo(*module), bytes);
  ASSERT_NE(module->entry(), nullptr);
  const HloInstruction* dot = module->entry()->Find(2);
  ASSERT_NE(dot, nullptr);
  EXPECT_EQ(dot->opcode, "dot");
  EXPECT_THAT(dot->operands, ElementsAre(1, 1));
  EXPECT_EQ(dot->shape.ToString(), "f32[4,4]{1,0}");
  EXPECT_EQ(dot->shape.layout->memory_space, 5);
  EXPECT_THAT(dot->shape.layout->tiles, ElementsAre(ElementsAre(8, 128)));
  EXPECT_THAT(dot->others, HasSubstr("of a newer XLA"));
  EXPECT_THAT(module->others, HasSubstr("also"));
}

TEST(Hlo, ReadsAttributesWhenAsked) {
  const auto module = *ReadHlo(WriteHlo(Dot()));
  const HloInstruction* dot = module.entry()->Find(2);
  const auto dimensions = DotDimensionsOf(*dot);
  ASSERT_TRUE(dimensions);
  EXPECT_THAT(dimensions->lhs_contracting, ElementsAre(1));
  EXPECT_THAT(dimensions->rhs_contracting, ElementsAre(0));
  EXPECT_FALSE(DotDimensionsOf(*module.entry()->Find(1)));
  EXPECT_FALSE(ConvolutionDimensionsOf(*dot));
  EXPECT_FALSE(ShardingOf(*dot));
  EXPECT_THAT(WindowOf(*dot), SizeIs(0));
  EXPECT_THAT(AliasesOf(module), SizeIs(0));
}

TEST(Hlo, RefusesWhatIsNoModule) {
  EXPECT_EQ(ReadHlo("\xff\xff").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadHlo("").error().code(), Code::kInvalidArgument);  // no entry computation
  EXPECT_EQ(ReadHloDump("").error().code(), Code::kInvalidArgument);
  auto dangling = Dot();
  dangling.computations[0].instructions[1].operands.push_back(99);
  EXPECT_THAT(ReadHlo(WriteHlo(dangling)).error().message(), HasSubstr("'d'"));
  auto twins = Dot();
  twins.computations[0].instructions[0].id = 2;
  twins.computations[0].instructions[1].operands = {};
  EXPECT_THAT(ReadHlo(WriteHlo(twins)).error().message(), HasSubstr("the id 2"));
  auto rootless = Dot();
  rootless.computations[0].root_id = 99;
  EXPECT_THAT(ReadHlo(WriteHlo(rootless)).error().message(), HasSubstr("no root"));
}

TEST(Hlo, RefusesTuplesTooDeepForTheStack) {
  HloShape deep = TokenShape();
  for (int i = 0; i < 100; ++i) deep = TupleShape({deep});
  auto module = Dot();
  module.computations[0].instructions[0].shape = deep;
  EXPECT_FALSE(ReadHlo(WriteHlo(module)));
}

TEST(HloShape, CountsElementsWithoutOverflow) {
  EXPECT_EQ(ArrayShape(ElementType::kF32, {}).elements(), 1);
  EXPECT_EQ(ArrayShape(ElementType::kF32, {3, 0}).elements(), 0);
  EXPECT_EQ(ArrayShape(ElementType::kF32, {int64_t{1} << 40, int64_t{1} << 40}).elements(),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(TokenShape().elements(), 0);
  EXPECT_EQ(TupleShape({TokenShape(), ArrayShape(ElementType::kS32, {2})}).ToString(),
            "(token[], s32[2]{0})");
}

}  // namespace
}  // namespace torus::program
