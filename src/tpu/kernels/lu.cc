// The panel, the triangular solve beside it, and the update of the rest.
#include "tpu/kernels/lu.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace torus::kernels {
namespace {

constexpr int64_t kPanel = 32;  // columns
constexpr int64_t kTile = 512;  // columns of the rest that are updated together: they fit the cache

// What makes one pivot better than another: LAPACK's cabs1 for complex numbers, a sum that is
// cheaper than the magnitude and as good.
template <typename T>
T Weight(T value) {
  return std::abs(value);
}
template <typename T>
T Weight(std::complex<T> value) {
  return std::abs(value.real()) + std::abs(value.imag());
}

// C++'s product of complex numbers looks for infinities that came from NaNs; this is the plain one,
// which compilers turn into vector instructions.
template <typename T>
T Product(T a, T b) {
  return a * b;
}
template <typename T>
std::complex<T> Product(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// target -= factor * source, over [begin, end).
template <typename T>
void Subtract(T* target, T factor, const T* source, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j) target[j] -= Product(factor, source[j]);
}

// The row at or below the diagonal of column k with the greatest number there; a NaN is one.
template <typename T>
int64_t FindPivot(const Matrix<T>& a, int64_t k) {
  int64_t best = k;
  auto greatest = Weight(a.row(k)[k]);
  for (int64_t i = k + 1; i < a.rows && !std::isnan(greatest); ++i) {
    const auto weight = Weight(a.row(i)[k]);
    if (weight > greatest || std::isnan(weight)) {
      greatest = weight;
      best = i;
    }
  }
  return best;
}

// Eliminates column k within the panel that ends before column `end`.
template <typename T>
void Eliminate(const Matrix<T>& a, int64_t k, int64_t end) {
  const T* pivot = a.row(k);
  if (pivot[k] == T(0)) return;
  for (int64_t i = k + 1; i < a.rows; ++i) {
    T* row = a.row(i);
    row[k] /= pivot[k];
    Subtract(row, row[k], pivot, k + 1, end);
  }
}

// Brings the rest (columns from `end` on) up to the panel of columns [begin, end): the panel's rows
// become rows of U, and the rows below lose what those explain.
template <typename T>
void UpdateRest(const Matrix<T>& a, int64_t begin, int64_t end) {
  for (int64_t left = end; left < a.columns; left += kTile) {
    const int64_t right = std::min(left + kTile, a.columns);
    for (int64_t i = begin + 1; i < a.rows; ++i) {
      T* row = a.row(i);
      for (int64_t k = begin; k < std::min(i, end); ++k) {
        Subtract(row, row[k], a.row(k), left, right);
      }
    }
  }
}

}  // namespace

template <typename T>
void LuDecompose(Matrix<T> a, std::span<int32_t> pivots, std::span<int32_t> permutation) {
  std::iota(permutation.begin(), permutation.end(), 0);
  const int64_t steps = std::min(a.rows, a.columns);
  for (int64_t begin = 0; begin < steps; begin += kPanel) {
    const int64_t end = std::min(begin + kPanel, steps);
    for (int64_t k = begin; k < end; ++k) {
      const int64_t pivot = FindPivot(a, k);
      pivots[k] = static_cast<int32_t>(pivot);
      if (pivot != k) {
        std::swap_ranges(a.row(k), a.row(k) + a.columns, a.row(pivot));
        std::swap(permutation[k], permutation[pivot]);
      }
      Eliminate(a, k, end);
    }
    UpdateRest(a, begin, end);
  }
}

template void LuDecompose(Matrix<float>, std::span<int32_t>, std::span<int32_t>);
template void LuDecompose(Matrix<double>, std::span<int32_t>, std::span<int32_t>);
template void LuDecompose(Matrix<std::complex<float>>, std::span<int32_t>, std::span<int32_t>);
template void LuDecompose(Matrix<std::complex<double>>, std::span<int32_t>, std::span<int32_t>);

}  // namespace torus::kernels
