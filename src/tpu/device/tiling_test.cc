#include "tpu/device/tiling.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace torus::tpu {
namespace {

Tiling Of(const char* generation) {
  return Tiling(*hardware::Catalogue::BuiltIn().FindGeneration(generation));
}

struct Case {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  int64_t v5e, v2;  // what libtpu 0.0.52 said
};

TEST(Tiling, TakesWhatTheRealCompilerSays) {
  const Case cases[] = {
      {PJRT_Buffer_Type_F32, {}, 512, 1024},
      {PJRT_Buffer_Type_F32, {5}, 512, 1024},
      {PJRT_Buffer_Type_F32, {129}, 1024, 1024},
      {PJRT_Buffer_Type_F32, {1025}, 8192, 8192},
      {PJRT_Buffer_Type_F32, {3, 5}, 2048, 2048},
      {PJRT_Buffer_Type_F32, {9, 129}, 16384, 16384},
      {PJRT_Buffer_Type_F32, {1000, 1}, 4096, 8192},  // transposed
      {PJRT_Buffer_Type_F32, {7, 3, 5}, 10240, 10240},
      {PJRT_Buffer_Type_F32, {1, 100, 130}, 66560, 69632},
      {PJRT_Buffer_Type_F32, {0, 5}, 0, 0},
      {PJRT_Buffer_Type_BF16, {3}, 512, 1024},
      {PJRT_Buffer_Type_BF16, {2, 512}, 2048, 4096},
      {PJRT_Buffer_Type_BF16, {2, 9, 2, 128}, 9216, 16384},
      {PJRT_Buffer_Type_S8, {128, 4}, 512, 1024},
      {PJRT_Buffer_Type_S8, {100, 4, 4, 100}, 204800, 212992},
      {PJRT_Buffer_Type_PRED, {64, 200}, 16384, 16384},
  };
  for (const auto& c : cases) {
    const int bits = BitsOf(c.type);
    EXPECT_EQ(Of("v5e").Bytes(bits, c.dims), c.v5e) << c.type << ::testing::PrintToString(c.dims);
    EXPECT_EQ(Of("v2").Bytes(bits, c.dims), c.v2) << c.type << ::testing::PrintToString(c.dims);
  }
}

TEST(Tiling, PacksNarrowTypesAndSplitsWideOnes) {
  const Tiling tiling = Of("v5e");
  const int64_t dims[] = {9, 129};
  EXPECT_EQ(tiling.Bytes(BitsOf(PJRT_Buffer_Type_S4), dims), 2048);
  EXPECT_EQ(tiling.Bytes(BitsOf(PJRT_Buffer_Type_S8), dims), 4096);
  EXPECT_EQ(tiling.Bytes(BitsOf(PJRT_Buffer_Type_BF16), dims), 8192);
  EXPECT_EQ(tiling.Bytes(BitsOf(PJRT_Buffer_Type_C64), dims), 32768);
  EXPECT_EQ(tiling.Bytes(BitsOf(PJRT_Buffer_Type_S64), dims), 32768);
  EXPECT_EQ(tiling.Bytes(BitsOf(PJRT_Buffer_Type_TOKEN), {}), 0);
}

TEST(Tiling, PadsFewRowsOfManyColumns) {
  const int64_t dims[] = {5, int64_t{1} << 30};
  EXPECT_EQ(Of("v5e").Bytes(32, dims), int64_t{32} << 30);
  EXPECT_EQ(DenseBytes(32, dims), int64_t{20} << 30);
}

TEST(Tiling, StopsAtTheLargestNumber) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const int64_t vector[] = {kMost}, array[] = {kMost / 2, 5}, negative[] = {-1, 5};
  EXPECT_EQ(Of("v2").Bytes(32, vector), kMost);
  EXPECT_EQ(Of("v2").Bytes(32, array), kMost);
  EXPECT_EQ(DenseBytes(32, array), kMost);
  EXPECT_EQ(Of("v2").Bytes(32, negative), 0);
}

}  // namespace
}  // namespace torus::tpu
