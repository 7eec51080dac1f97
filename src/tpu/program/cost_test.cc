// What XLA's HloCostAnalysis and libtpu 0.0.52 gave for the same operations.
#include "tpu/program/cost.h"

#include <gtest/gtest.h>

#include "tpu/program/testing.h"

namespace torus::program {
namespace {

constexpr Roofline kRoofline{.flops = 1e12, .bytes = 1e11, .vector_memory_bytes = 1 << 27};

HloShape F32(std::vector<int64_t> dimensions) {
  return ArrayShape(ElementType::kF32, std::move(dimensions));
}

Cost CostOf(const ModuleBuilder& builder, Roofline roofline = kRoofline) {
  return program::CostOf(builder.Build(), roofline);
}

// dot_dimension_numbers: the left's last dimension by the right's first.
void Contract(ModuleBuilder& b, int64_t dot, int64_t left) {
  std::string numbers;
  protozero::pbf_writer writer(numbers);
  writer.add_int64(1, left);
  writer.add_int64(2, 0);
  b.Others(dot).add_message(30, numbers);
}

// One dimension of a window, as xla_data.proto has it.
void Window(ModuleBuilder& b, int64_t id, int64_t size, int64_t stride, int64_t padding) {
  std::string dimension, window;
  protozero::pbf_writer writer(dimension);
  writer.add_int64(1, size);
  writer.add_int64(2, stride);
  writer.add_int64(3, padding);
  writer.add_int64(4, padding);
  writer.add_int64(5, 1);
  writer.add_int64(6, 1);
  protozero::pbf_writer(window).add_message(1, dimension);
  b.Others(id).add_message(15, window);
}

// max(x, y), as a computation of its own.
HloModule WithMaximum(const ModuleBuilder& builder, int64_t user) {
  HloModule module = builder.Build();
  HloComputation maximum{.id = 99, .name = "max"};
  for (int64_t i = 0; i < 2; ++i)
    maximum.instructions.push_back({.id = 101 + i, .opcode = "parameter", .shape = F32({})});
  maximum.instructions.push_back(
      {.id = 103, .opcode = "maximum", .shape = F32({}), .operands = {101, 102}});
  maximum.root_id = 103;
  module.computations.front().Find(user)->called = {99};
  module.computations.push_back(std::move(maximum));
  return module;
}

TEST(Cost, AnElementWiseOperationIsOneAnElement) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", F32({100}));
  b.Add("tanh", F32({100}), {b.Add("add", F32({100}), {x, x})});
  const Cost cost = CostOf(b);
  EXPECT_EQ(cost.flops, 100);
  EXPECT_EQ(cost.transcendentals, 100);
  EXPECT_EQ(cost.bytes, (3 + 2) * 400);
  EXPECT_DOUBLE_EQ(cost.seconds, cost.bytes / kRoofline.bytes);
}

TEST(Cost, AMultiplyAddOfADotIsTwo) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", F32({8, 16}));
  const auto y = b.Add("parameter", F32({16, 4}));
  Contract(b, b.Add("dot", F32({8, 4}), {x, y}), 1);
  EXPECT_EQ(CostOf(b).flops, 2 * 8 * 16 * 4);
}

TEST(Cost, AnArgumentOfADotGoesToTheVectorMemoryFirst) {
  for (const int64_t columns : {int64_t{64}, int64_t{1}}) {
    ModuleBuilder b;
    const auto x = b.Add("parameter", F32({64, 64}));
    const auto y = b.Add("parameter", F32({64, columns}));
    Contract(b, b.Add("dot", F32({64, columns}), {x, y}), 1);
    const double once = 4.0 * (64 * 64 + 64 * columns + 64 * columns);
    const double copied = columns > 1 ? 4.0 * 4 * 64 * 64 : 0;  // a vector's matrix is read once
    EXPECT_EQ(CostOf(b).bytes, once + copied) << columns;
    EXPECT_EQ(CostOf(b, {1e12, 1e11, 100}).bytes, once) << "larger than the vector memory";
  }
}

TEST(Cost, AReductionIsOneAnElementButTheLast) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", F32({10, 20}));
  const auto zero = b.Add("constant", F32({}));
  const auto reduce = b.Add("reduce", F32({10}), {x, zero});
  EXPECT_EQ(program::CostOf(WithMaximum(b, reduce), kRoofline).flops, 200 - 10);
}

TEST(Cost, AWindowIsReducedAtEachPlace) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", F32({16}));
  const auto zero = b.Add("constant", F32({}));
  const auto pool = b.Add("reduce-window", F32({8}), {x, zero});
  Window(b, pool, 2, 2, 0);
  EXPECT_EQ(program::CostOf(WithMaximum(b, pool), kRoofline).flops, 8 * (2 - 1));
}

TEST(Cost, AConvolutionCountsNoPadding) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", F32({1, 5, 3}));  // batch, place, feature
  const auto kernel = b.Add("parameter", F32({3, 3, 7}));
  const auto conv = b.Add("convolution", F32({1, 5, 7}), {x, kernel});
  Window(b, conv, 3, 1, 1);
  std::string numbers;
  protozero::pbf_writer writer(numbers);
  for (const auto& [field, value] : std::vector<std::pair<int, int>>{
           {7, 0}, {8, 2}, {11, 1}, {3, 1}, {4, 2}, {6, 0}, {9, 0}, {10, 2}, {12, 1}})
    writer.add_int64(static_cast<protozero::pbf_tag_type>(field), value);
  b.Others(conv).add_message(16, numbers);
  // 15 pairs of a place and a tap, two of which lie in the padding.
  EXPECT_EQ(CostOf(b).flops, 2 * 13 * 3 * 7);
}

TEST(Cost, ASortComparesAsOftenAsItMust) {
  ModuleBuilder b;
  b.Add("sort", F32({1024}), {b.Add("parameter", F32({1024}))});
  EXPECT_EQ(CostOf(b).flops, 1024 * 10);
}

TEST(Cost, AGatherReadsWhatItReturns) {
  ModuleBuilder b;
  const auto table = b.Add("parameter", F32({1000, 8}));
  const auto indices = b.Add("parameter", ArrayShape(ElementType::kS32, {10, 1}));
  b.Add("gather", F32({10, 8}), {table, indices});
  const Cost cost = CostOf(b, {1e12, 1e11, 0});
  EXPECT_EQ(cost.flops, 10) << "its indices are brought within bounds";
  EXPECT_EQ(cost.bytes, 4 * (80 + 80 + 10));
}

TEST(Cost, ALoopsBodyCountsOnce) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", F32({}));
  const auto loop = b.Add("while", F32({}), {x});
  EXPECT_EQ(program::CostOf(WithMaximum(b, loop), kRoofline).flops, 1);
}

TEST(Cost, WhatOnlyNamesMemoryCostsNothing) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", F32({100}));
  b.Add("bitcast", F32({10, 10}), {x});
  const Cost cost = CostOf(b);
  EXPECT_EQ(cost.flops + cost.bytes + cost.seconds, 0);
}

TEST(Cost, SurvivesAnEmptyModule) { EXPECT_EQ(program::CostOf(HloModule(), kRoofline).bytes, 0); }

}  // namespace
}  // namespace torus::program
