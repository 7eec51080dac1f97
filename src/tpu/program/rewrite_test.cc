// Which programs are looked at, and the passes that change or refuse a single instruction.
#include "tpu/program/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/testing.h"

namespace torus::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HloModule CustomCall(const std::string& target, HloShape shape) {
  ModuleBuilder m;
  const int64_t x = m.Add("parameter", ArrayShape(ElementType::kF32, {5, 4, 4}));
  m[m.Add("custom-call", std::move(shape), {x})].custom_call_target = target;
  return m.Build();
}

TEST(MayNeedRewrite, FindsNamesInAnyForm) {
  EXPECT_TRUE(MayNeedRewrite("%1 = \"stablehlo.send\"(%arg0, %0)"));
  EXPECT_TRUE(MayNeedRewrite(std::string_view("ML\xefR\0LuDecomposition\0", 21)));
  EXPECT_TRUE(MayNeedRewrite(WriteHlo(CustomCall("tpu_custom_call", TokenShape()))));
  EXPECT_FALSE(MayNeedRewrite("%0 = stablehlo.add %x, %x : tensor<4xf32>"));
  EXPECT_FALSE(MayNeedRewrite(""));
}

TEST(Rewrite, LeavesAProgramThatTheEngineKnows) {
  HloModule module = CustomCall("Sharding", ArrayShape(ElementType::kF32, {5, 4, 4}));
  EXPECT_FALSE(*Rewrite(module));
}

TEST(RewriteLu, CallsOurCode) {
  HloModule module = CustomCall(
      "LuDecomposition",
      TupleShape({ArrayShape(ElementType::kF32, {5, 4, 4}), ArrayShape(ElementType::kS32, {5, 4}),
                  ArrayShape(ElementType::kS32, {5, 4})}));
  ASSERT_TRUE(*Rewrite(module));
  EXPECT_EQ(module.entry()->instructions[1].custom_call_target, kLuTarget);
}

TEST(RewriteLu, RefusesOtherShapes) {
  HloModule module = CustomCall("LuDecomposition", TupleShape({TokenShape()}));
  EXPECT_EQ(Rewrite(module).error().code(), Code::kInvalidArgument);
}

TEST(RewriteAllocateBuffer, GivesZeros) {
  HloModule module = CustomCall("AllocateBuffer", ArrayShape(ElementType::kBF16, {3, 4}));
  ASSERT_TRUE(*Rewrite(module));
  ASSERT_TRUE(ReadHlo(WriteHlo(module)));
  const auto* array = module.entry()->Find(module.entry()->root_id);
  EXPECT_EQ(array->opcode, "broadcast");
  EXPECT_EQ(array->custom_call_target, "");
  EXPECT_EQ(module.entry()->Find(array->operands[0])->shape.ToString(), "bf16[]");
}

TEST(WidenInt4Dots, ConvertsWhatIsNarrow) {
  ModuleBuilder m;
  const int64_t a = m.Add("parameter", ArrayShape(ElementType::kS4, {3, 4}));
  const int64_t b = m.Add("parameter", ArrayShape(ElementType::kS32, {4, 3}));
  m.Add("dot", ArrayShape(ElementType::kS32, {3, 3}), {a, b});
  HloModule module = m.Build();
  ASSERT_TRUE(*Rewrite(module));
  const auto& instructions = module.entry()->instructions;
  ASSERT_EQ(instructions.size(), 4u);
  EXPECT_EQ(instructions[2].opcode, "convert");
  EXPECT_EQ(instructions[2].shape.ToString(), "s32[3,4]{1,0}");
  EXPECT_THAT(instructions[3].operands, ElementsAre(instructions[2].id, b));
  EXPECT_FALSE(*Rewrite(module));
}

TEST(RefuseMosaic, NamesTheKernelAndTheWayOut) {
  HloModule module = CustomCall("tpu_custom_call", ArrayShape(ElementType::kF32, {8}));
  protozero::pbf_writer others(module.computations[0].instructions[1].others);
  protozero::pbf_writer(others, 7).add_string(2, "jit(f)/add_vectors");  // OpMetadata.op_name
  const auto refused = Rewrite(module);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnimplemented);
  EXPECT_THAT(refused.error().message(), HasSubstr("'jit(f)/add_vectors'"));
  EXPECT_THAT(refused.error().message(), HasSubstr("interpret=True"));
}

}  // namespace
}  // namespace torus::program
