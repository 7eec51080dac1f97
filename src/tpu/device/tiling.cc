// The arithmetic of tiles.
#include "tpu/device/tiling.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace torus::tpu {
namespace {

constexpr int64_t kLanes = 128;
constexpr int64_t kSublanes = 8;
constexpr int kWordBits = 32;
constexpr int64_t kTooMany = std::numeric_limits<int64_t>::max();

// Numbers that stop at the largest.
int64_t Times(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kTooMany : product;
}

// REQUIRES: `to` is a power of two.
int64_t RoundUp(int64_t value, int64_t to) {
  return value > kTooMany - to ? kTooMany : (value + to - 1) & -to;
}

// The least power of two that holds `value`, between the bounds.
int64_t PowerFor(int64_t value, int64_t least, int64_t most) {
  if (value >= most) return std::max(least, most);
  return std::max(least, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value))));
}

int64_t Elements(std::span<const int64_t> dims) {
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim <= 0) return 0;
    elements = Times(elements, dim);
  }
  return elements;
}

// The product of all dimensions but two.
int64_t Others(std::span<const int64_t> dims, size_t a, size_t b) {
  int64_t product = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != a && i != b) product = Times(product, dims[i]);
  }
  return product;
}

// Elements with their padding, where no tile is smaller than the last argument says.
int64_t PaddedVector(int64_t elements, int64_t least_tile) {
  return RoundUp(elements, PowerFor(elements, least_tile, kSublanes * kLanes));
}

int64_t PaddedArray(std::span<const int64_t> dims, int64_t least_rows) {
  int64_t best = kTooMany;
  for (size_t row = 0; row < dims.size(); ++row) {
    const int64_t rows = RoundUp(dims[row], PowerFor(dims[row], least_rows, kSublanes));
    for (size_t lane = 0; lane < dims.size(); ++lane) {
      if (lane == row) continue;
      const int64_t tile = Times(rows, RoundUp(dims[lane], kLanes));
      best = std::min(best, Times(tile, Others(dims, row, lane)));
    }
  }
  return best;
}

}  // namespace

int BitsOf(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_INVALID:
    case PJRT_Buffer_Type_TOKEN:
      return 0;
    case PJRT_Buffer_Type_S2:
    case PJRT_Buffer_Type_U2:
      return 2;
    case PJRT_Buffer_Type_S4:
    case PJRT_Buffer_Type_U4:
    case PJRT_Buffer_Type_F4E2M1FN:
      return 4;
    case PJRT_Buffer_Type_S16:
    case PJRT_Buffer_Type_U16:
    case PJRT_Buffer_Type_F16:
    case PJRT_Buffer_Type_BF16:
      return 16;
    case PJRT_Buffer_Type_S32:
    case PJRT_Buffer_Type_U32:
    case PJRT_Buffer_Type_F32:
      return 32;
    case PJRT_Buffer_Type_S64:
    case PJRT_Buffer_Type_U64:
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_C64:
      return 64;
    case PJRT_Buffer_Type_C128:
      return 128;
    default:
      return 8;
  }
}

int64_t DenseBytes(int bits, std::span<const int64_t> dims) {
  return Times((bits + 7) / 8, Elements(dims));
}

int64_t Tiling::Bytes(int bits, std::span<const int64_t> dims) const {
  const int64_t elements = Elements(dims);
  if (bits == 0 || elements == 0) return 0;
  const int64_t words = std::max(1, bits / kWordBits);  // that one element takes
  const int64_t packing = std::max(1, kWordBits / bits);
  // A granule is whole sublanes.
  const int64_t least_rows = packing * granule_bytes_ / (kLanes * kWordBits / 8);
  const int64_t padded =
      dims.size() < 2 ? PaddedVector(elements, least_rows * kLanes) : PaddedArray(dims, least_rows);
  // In words first: an array that fits does not overflow on the way.
  return Times(Times(padded / packing, words), kWordBits / 8);
}

}  // namespace torus::tpu
