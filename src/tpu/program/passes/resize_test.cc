// What resizing becomes. That the values are those of a native CPU, tests/tensorflow shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/testing.h"

namespace torus::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HloShape Floats(std::vector<int64_t> dimensions) {
  return ArrayShape(ElementType::kF32, std::move(dimensions));
}

HloModule Resize(std::string target, std::string config, HloShape from, HloShape to) {
  ModuleBuilder m;
  const int64_t image = m.Add("parameter", std::move(from));
  const int64_t call = m.Add("custom-call", std::move(to), {image});
  m[call].custom_call_target = std::move(target);
  m[call].backend_config = "\"" + config + "\"";
  return m.Build();
}

std::vector<const HloInstruction*> All(const HloModule& module, std::string_view opcode) {
  std::vector<const HloInstruction*> all;
  for (const auto& instruction : module.entry()->instructions)
    if (instruction.opcode == opcode) all.push_back(&instruction);
  return all;
}

// The lists of places, and of weights, in the order in which they are used.
std::vector<std::vector<int64_t>> Places(const HloModule& module) {
  std::vector<std::vector<int64_t>> lists;
  for (const auto* constant : All(module, "constant")) {
    if (constant->shape.element_type == ElementType::kS64 && !constant->shape.dimensions.empty())
      lists.push_back(wire::FindInts(LiteralOf(*constant), 5));
  }
  return lists;
}
std::vector<std::vector<float>> Weights(const HloModule& module) {
  std::vector<std::vector<float>> lists;
  for (const auto* constant : All(module, "constant")) {
    const auto bytes = wire::FindBytes(LiteralOf(*constant), 8);
    if (!bytes) continue;
    std::vector<float> weights(bytes->size() / sizeof(float));
    std::memcpy(weights.data(), bytes->data(), bytes->size());
    lists.push_back(weights);
  }
  return lists;
}

TEST(RewriteResize, MixesTwoPixelsInEachDimension) {
  HloModule module = Resize("ResizeBilinear", "01", Floats({3, 2, 4, 5}), Floats({3, 4, 2, 5}));
  ASSERT_TRUE(*Rewrite(module));
  ASSERT_TRUE(ReadHlo(WriteHlo(module)));
  // The width first: half of it, so that a new pixel lies between two. Then the height, whose first
  // and last pixel have no neighbour.
  EXPECT_THAT(Places(module), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3),
                                          ElementsAre(0, 0, 0, 1), ElementsAre(0, 1, 1, 1)));
  EXPECT_THAT(Weights(module),
              ElementsAre(ElementsAre(0.5F, 0.5F), ElementsAre(0.75F, 0.25F, 0.75F, 0.25F)));
  const auto gathers = All(module, "gather");
  ASSERT_EQ(gathers.size(), 4u);
  EXPECT_EQ(gathers[0]->shape.ToString(), "f32[3,2,2,5]{3,2,1,0}");
  EXPECT_EQ(gathers[3]->shape.ToString(), "f32[3,4,2,5]{3,2,1,0}");
  const auto& root = *module.entry()->Find(module.entry()->root_id);
  EXPECT_EQ(root.opcode, "copy");
  EXPECT_EQ(root.custom_call_target, "");
  EXPECT_EQ(root.backend_config, "");
  EXPECT_FALSE(*Rewrite(module));
}

TEST(RewriteResize, KnowsWhereCornersAndMiddlesAre) {
  const auto places = [](const char* target, const char* config) {
    HloModule module = Resize(target, config, Floats({1, 4, 1, 1}), Floats({1, 3, 1, 1}));
    EXPECT_TRUE(*Rewrite(module));
    return Places(module).front();
  };
  EXPECT_THAT(places("ResizeNearest", "00"), ElementsAre(0, 1, 2));
  EXPECT_THAT(places("ResizeNearest", "01"), ElementsAre(0, 2, 3));
  EXPECT_THAT(places("ResizeNearest", "10"), ElementsAre(0, 2, 3));
  EXPECT_THAT(places("ResizeBilinear", "00"), ElementsAre(0, 1, 2));
  EXPECT_THAT(places("ResizeBilinear", "10"), ElementsAre(0, 1, 3));
}

TEST(RewriteResize, TakesOnePixelWhereNoneIsMixedIn) {
  HloModule module = Resize("ResizeBilinear", "00", ArrayShape(ElementType::kU8, {1, 4, 4, 3}),
                            Floats({1, 2, 2, 3}));
  ASSERT_TRUE(*Rewrite(module));
  EXPECT_EQ(All(module, "gather").size(), 2u);
  EXPECT_EQ(All(module, "convert").size(), 1u);
  EXPECT_TRUE(All(module, "multiply").empty());
}

TEST(RewriteResize, KeepsTheTypeOfTheNearest) {
  const auto of = [](std::vector<int64_t> dimensions) {
    return ArrayShape(ElementType::kU8, std::move(dimensions));
  };
  HloModule module = Resize("ResizeNearest", "01", of({1, 2, 2, 3}), of({1, 4, 2, 3}));
  ASSERT_TRUE(*Rewrite(module));
  ASSERT_EQ(All(module, "gather").size(), 1u);
  EXPECT_EQ(All(module, "gather")[0]->shape.ToString(), "u8[1,4,2,3]{3,2,1,0}");
  EXPECT_TRUE(All(module, "convert").empty());
}

TEST(RewriteResize, AddsGradientsUp) {
  HloModule module = Resize("ResizeBilinearGrad", "01", Floats({3, 4, 2, 5}), Floats({3, 2, 2, 5}));
  ASSERT_TRUE(*Rewrite(module));
  ASSERT_TRUE(ReadHlo(WriteHlo(module)));
  EXPECT_THAT(Places(module), ElementsAre(ElementsAre(0, 0, 0, 1), ElementsAre(0, 1, 1, 1)));
  EXPECT_THAT(Weights(module), ElementsAre(ElementsAre(0.25F, 0.75F, 0.25F, 0.75F),
                                           ElementsAre(0.75F, 0.25F, 0.75F, 0.25F)));
  const auto dots = All(module, "dot");
  ASSERT_EQ(dots.size(), 1u);
  EXPECT_EQ(dots[0]->shape.ToString(), "f32[3,2,5,2]{3,2,1,0}");
  EXPECT_THAT(DotDimensionsOf(*dots[0])->lhs_contracting, ElementsAre(1));
  const auto transposes = All(module, "transpose");
  ASSERT_EQ(transposes.size(), 1u);
  EXPECT_THAT(transposes[0]->dimensions, ElementsAre(0, 3, 1, 2));
}

TEST(RewriteResize, AddsSmallNumbersUpInWideOnes) {
  HloModule module = Resize("ResizeNearestGrad", "01", ArrayShape(ElementType::kF16, {1, 4, 4, 1}),
                            ArrayShape(ElementType::kF16, {1, 2, 2, 1}));
  ASSERT_TRUE(*Rewrite(module));
  ASSERT_EQ(All(module, "dot").size(), 2u);
  EXPECT_EQ(All(module, "dot")[0]->shape.element_type, ElementType::kF32);
  EXPECT_EQ(module.entry()->Find(module.entry()->root_id)->opcode, "convert");
}

TEST(RewriteResize, RefusesWhatAreNoImages) {
  HloModule ranks = Resize("ResizeNearest", "00", Floats({4, 4}), Floats({2, 2}));
  EXPECT_THAT(Rewrite(ranks).error().message(), HasSubstr("[batch, height, width, channels]"));
  HloModule batches = Resize("ResizeNearest", "00", Floats({1, 4, 4, 1}), Floats({1, 2, 2, 1}));
  batches.computations[0].instructions[0].shape.dynamic = {true, false, false, false};
  EXPECT_EQ(Rewrite(batches).error().code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace torus::program
