#include "tpu/kernels/lu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace torus::kernels {
namespace {

using ::testing::ElementsAre;

template <typename T>
struct Decomposition {
  std::vector<T> lu;
  std::vector<int32_t> pivots, permutation;
};

template <typename T>
Decomposition<T> Decompose(std::vector<T> a, int64_t rows, int64_t columns) {
  Decomposition<T> d{std::move(a), std::vector<int32_t>(std::min(rows, columns)),
                     std::vector<int32_t>(rows)};
  LuDecompose<T>({d.lu.data(), rows, columns}, d.pivots, d.permutation);
  return d;
}

template <typename T>
T Random(std::mt19937& random) {
  std::normal_distribution<double> normal;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(normal(random));
  } else {
    using Part = typename T::value_type;
    return T(static_cast<Part>(normal(random)), static_cast<Part>(normal(random)));
  }
}

template <typename T>
class Lu : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Lu, Types);

// P a = L U for matrices within a panel, across panels and tiles, and of any shape.
TYPED_TEST(Lu, GivesBackTheMatrix) {
  using T = TypeParam;
  std::mt19937 random(1);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {3, 3}, {32, 32}, {33, 33}, {100, 100}, {70, 40}, {40, 70}, {5, 600}, {0, 3}}) {
    std::vector<T> a(rows * columns);
    for (T& value : a) value = Random<T>(random);
    const auto d = Decompose(a, rows, columns);
    double worst = 0;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        T sum = 0;
        for (int64_t k = 0; k <= std::min({i, j, columns - 1}) && k < std::min(rows, columns); ++k)
          sum += (k == i ? T(1) : d.lu[i * columns + k]) * d.lu[k * columns + j];
        worst = std::max<double>(worst, std::abs(sum - a[d.permutation[i] * columns + j]));
      }
    }
    constexpr bool kDouble = std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>;
    EXPECT_LT(worst, kDouble ? 1e-12 : 1e-3) << rows << "x" << columns;
  }
}

TEST(Lu, PivotsAndPermutationAreLapacksCountedFromZero) {
  const auto d = Decompose<double>({0, 1, 2, 3}, 2, 2);
  EXPECT_THAT(d.lu, ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(d.pivots, ElementsAre(1, 1));
  EXPECT_THAT(d.permutation, ElementsAre(1, 0));
}

TEST(Lu, ASingularMatrixHasAZeroOnTheDiagonal) {
  EXPECT_THAT(Decompose<double>({0, 0, 0, 0}, 2, 2).lu, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Decompose<double>({1, 2, 2, 4}, 2, 2).lu, ElementsAre(2, 4, 0.5, 0));
}

TEST(Lu, NansSpread) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Decompose<double>({1, 2, nan, 4}, 2, 2).lu[3]));
}

}  // namespace
}  // namespace torus::kernels
