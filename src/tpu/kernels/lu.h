// LU decomposition with partial pivoting of one dense matrix, for real and complex numbers.
//
// Right-looking and blocked: panels of a few columns are factored, and the rest is updated a tile
// at a time, so that most of the work runs from the cache. Pure. Thread-safety: all functions.
#ifndef TORUS_TPU_KERNELS_LU_H_
#define TORUS_TPU_KERNELS_LU_H_

#include <complex>
#include <cstdint>
#include <span>

namespace torus::kernels {

// A row-major m x n matrix.
template <typename T>
struct Matrix {
  T* data;
  int64_t rows, columns;

  T* row(int64_t i) const { return data + i * columns; }
};

// Replaces `a` by L (below the diagonal, ones on it not stored) and U, where P a = L U.
// pivots[k], k < min(m, n), is the row that was swapped with row k; permutation[i], i < m, the row
// of `a` that came to row i. A column without a pivot (all zeros) is passed over, so a singular
// matrix has a zero on U's diagonal; NaNs spread.
template <typename T>
void LuDecompose(Matrix<T> a, std::span<int32_t> pivots, std::span<int32_t> permutation);

extern template void LuDecompose(Matrix<float>, std::span<int32_t>, std::span<int32_t>);
extern template void LuDecompose(Matrix<double>, std::span<int32_t>, std::span<int32_t>);
extern template void LuDecompose(Matrix<std::complex<float>>, std::span<int32_t>,
                                 std::span<int32_t>);
extern template void LuDecompose(Matrix<std::complex<double>>, std::span<int32_t>,
                                 std::span<int32_t>);

}  // namespace torus::kernels

#endif  // TORUS_TPU_KERNELS_LU_H_
