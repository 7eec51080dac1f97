#include "tpu/device/compiled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::tpu {
namespace {

using program::ArrayShape;
using program::ElementType;
using program::HloInstruction;
using program::HloModule;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const hardware::Generation& V5e() { return *hardware::Catalogue::BuiltIn().FindGeneration("v5e"); }

HloInstruction Make(int64_t id, const char* opcode, std::vector<int64_t> dims,
                    std::vector<int64_t> operands) {
  HloInstruction instruction;
  instruction.id = id;
  instruction.opcode = opcode;
  instruction.shape = ArrayShape(ElementType::kF32, std::move(dims));
  instruction.operands = std::move(operands);
  return instruction;
}

// tanh(x + x) of one array.
HloModule Module(std::vector<int64_t> dims) {
  HloModule module;
  module.entry_computation_id = 1;
  auto& entry = module.computations.emplace_back();
  entry.id = 1;
  entry.root_id = 3;
  entry.instructions = {Make(1, "parameter", dims, {}), Make(2, "add", dims, {1, 1}),
                        Make(3, "tanh", dims, {2})};
  return module;
}

TEST(Compiled, CountsMemoryInTiles) {
  const auto memory = Examine(Module({5, 1000}), V5e()).memory;
  EXPECT_EQ(memory.arguments, 8 * 1024 * 4);
  EXPECT_EQ(memory.outputs, 8 * 1024 * 4);
  EXPECT_EQ(memory.temporaries, 0);  // the sum lives in registers
  EXPECT_EQ(memory.total(), 2 * 8 * 1024 * 4);
}

TEST(Compiled, CountsOperationsAndTraffic) {
  const auto cost = Examine(Module({1024, 1024}), V5e()).cost;
  constexpr double kElements = 1 << 20;
  EXPECT_EQ(cost.flops, kElements);
  EXPECT_EQ(cost.transcendentals, kElements);
  EXPECT_EQ(cost.bytes, 5 * 4 * kElements);
  EXPECT_EQ(cost.output_bytes, 2 * 4 * kElements);
  EXPECT_NEAR(cost.seconds, cost.bytes / (0.9007 * 819e9), 1e-9);
}

TEST(Compiled, NamesTheLargestTensorsAndWhatWouldFit) {
  const auto advice = Examine(Module({8192, 1024}), V5e()).advice;  // 64 MiB
  EXPECT_THAT(
      advice.Text(32 << 20),
      AllOf(HasSubstr("Largest tensors:\n  32.00M f32[8192,1024]{1,0} parameter"),
            HasSubstr("That is 32.00M too much. If the first dimension, 8192, is a batch (of "
                      "one device), one of 4096 would fit. Otherwise use")));
  EXPECT_THAT(advice.Text(48 << 20), HasSubstr("one of 2048 would fit"));
  EXPECT_THAT(advice.Text(64 << 20), Not(HasSubstr("would fit")));
}

// x @ w, both elements of one argument: as TensorFlow passes them.
HloModule TupleModule(int64_t batch, int64_t width) {
  HloModule module;
  module.entry_computation_id = 1;
  auto& entry = module.computations.emplace_back();
  entry.id = 1;
  entry.root_id = 4;
  auto parameter = Make(1, "parameter", {}, {});
  parameter.shape = program::HloShape{};
  parameter.shape.element_type = ElementType::kTuple;
  parameter.shape.tuple = {ArrayShape(ElementType::kF32, {batch, width}),
                           ArrayShape(ElementType::kF32, {width, width})};
  auto w = Make(3, "get-tuple-element", {width, width}, {1});
  w.tuple_index = 1;
  entry.instructions = {parameter, Make(2, "get-tuple-element", {batch, width}, {1}), w,
                        Make(4, "dot", {batch, width}, {2, 3})};
  return module;
}

TEST(Compiled, LooksIntoArgumentsThatAreOne) {
  const auto compiled = Examine(TupleModule(8192, 1024), V5e());
  ASSERT_EQ(compiled.memory.total(), (32 + 4 + 32) << 20);
  EXPECT_EQ(compiled.advice.growing, 64 << 20) << "the weights do not grow";
  EXPECT_THAT(
      compiled.advice.Text((68 - 36) << 20),
      AllOf(HasSubstr("32.00M f32[8192,1024]{1,0} parameter"),
            HasSubstr("4.00M f32[1024,1024]{1,0} parameter"), HasSubstr("one of 4096 would fit")));
}

TEST(Compiled, SurvivesAnEmptyModule) { EXPECT_EQ(Examine(HloModule(), V5e()).memory.total(), 0); }

}  // namespace
}  // namespace torus::tpu
