#include "tpu/device/temporaries.h"

#include <gtest/gtest.h>

#include "tpu/program/testing.h"

namespace torus::tpu {
namespace {

using program::ArrayShape;
using program::ElementType;
using program::HloShape;
using program::ModuleBuilder;

constexpr int64_t kMatrix = int64_t{1024} * 1024 * 4;

HloShape Matrix() { return ArrayShape(ElementType::kF32, {1024, 1024}); }

int64_t Bytes(const ModuleBuilder& builder, int64_t vector_memory = 0) {
  const auto& v5e = *hardware::Catalogue::BuiltIn().FindGeneration("v5e");
  return TemporaryBytes(builder.Build(), Tiling(v5e), vector_memory);
}

TEST(Temporaries, WhatGoesFromOneMatrixProductToTheNextIsWritten) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", Matrix());
  const auto y = b.Add("dot", Matrix(), {x, x});
  b.Add("dot", Matrix(), {y, x});
  EXPECT_EQ(Bytes(b), kMatrix);
  EXPECT_EQ(Bytes(b, 2 * kMatrix), 0) << "it fits in the vector memory";
}

TEST(Temporaries, ElementWiseOperationsLiveInRegisters) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", Matrix());
  const auto one = b.Add("constant", ArrayShape(ElementType::kF32, {}));
  const auto ones = b.Add("broadcast", Matrix(), {one});
  const auto sum = b.Add("add", Matrix(), {x, ones});
  const auto tanh = b.Add("tanh", Matrix(), {sum});
  b.Add("dot", Matrix(), {tanh, sum});
  EXPECT_EQ(Bytes(b), 0);
}

TEST(Temporaries, AMatrixProductEndsInItsElementWiseUser) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", Matrix());
  const auto product = b.Add("dot", Matrix(), {x, x});
  const auto tanh = b.Add("tanh", Matrix(), {product});
  const auto next = b.Add("dot", Matrix(), {tanh, x});
  b.Add("dot", Matrix(), {next, tanh});
  EXPECT_EQ(Bytes(b), 2 * kMatrix) << "tanh and the second product, not the first one";
}

TEST(Temporaries, AResultIsNoTemporary) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", Matrix());
  b.Add("dot", Matrix(), {x, x});
  EXPECT_EQ(Bytes(b), 0);
}

TEST(Temporaries, AValueEndsWithItsLastUser) {
  ModuleBuilder b;
  auto x = b.Add("parameter", Matrix());
  for (int i = 0; i < 10; ++i) x = b.Add("dot", Matrix(), {x, x});
  EXPECT_EQ(Bytes(b), 2 * kMatrix) << "an operand and a result at a time";
}

TEST(Temporaries, WhatIsNarrowedIsHeldNarrow) {
  ModuleBuilder b;
  const auto narrow = ArrayShape(ElementType::kBF16, {1024, 1024});
  const auto x = b.Add("parameter", narrow);
  const auto wide = b.Add("dot", Matrix(), {x, x});
  const auto back = b.Add("convert", narrow, {wide});
  const auto next = b.Add("dot", narrow, {back, x});
  b.Add("dot", Matrix(), {next, wide});
  EXPECT_EQ(Bytes(b), kMatrix) << "two matrices of two bytes an element";
}

TEST(Temporaries, ALoopHoldsItsState) {
  ModuleBuilder b;
  const auto x = b.Add("parameter", Matrix());
  const auto begin = b.Add("dot", Matrix(), {x, x});
  const auto state = b.Add("tuple", program::TupleShape({Matrix(), Matrix()}), {begin, x});
  const auto loop = b.Add("while", program::TupleShape({Matrix(), Matrix()}), {state});
  const auto end = b.Add("get-tuple-element", Matrix(), {loop});
  b.Add("dot", Matrix(), {end, end});
  EXPECT_EQ(Bytes(b), kMatrix);
}

TEST(Temporaries, SurviveWhatTheyDoNotKnow) {
  EXPECT_EQ(Bytes(ModuleBuilder()), 0);
  ModuleBuilder b;
  b.Add("get-tuple-element", Matrix(), {b.Add("newest-op", program::TupleShape({}))});
  b[2].tuple_index = 7;
  EXPECT_GE(Bytes(b), 0);
}

}  // namespace
}  // namespace torus::tpu
