// The arithmetic of collectives: what each member of a group gets from what all of them bring.
// Thread-safety: as of the memory it is given.
#ifndef TORUS_TPU_KERNELS_COLLECTIVES_H_
#define TORUS_TPU_KERNELS_COLLECTIVES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "tpu/program/collectives.h"

namespace torus::kernels {

// A dense array in row-major order, of another's memory.
struct Operand {
  program::ElementType type = program::ElementType::kInvalid;
  std::vector<int64_t> dimensions;
  const char* data = nullptr;

  // INVALID_ARGUMENT for a type whose elements are no whole bytes, and for sizes beyond 2^40.
  Result<size_t> Bytes() const;
};

struct Member {
  int64_t replica = 0;
  std::vector<Operand> operands;
  std::vector<std::span<char>> results;  // as many, and as large, as ResultBytes says
};

// The sizes of a member's results, in a group of so many. INVALID_ARGUMENT where the operands do
// not suit the collective.
Result<std::vector<size_t>> ResultBytes(const program::Collective& collective,
                                        std::span<const Operand> operands, size_t members);

// Fills the results of a group's members, in the group's order. INVALID_ARGUMENT where they bring
// different arrays or a result is of another size; UNIMPLEMENTED for a reduction of a type that has
// none.
Status Combine(const program::Collective& collective, std::span<Member> members);

}  // namespace torus::kernels

#endif  // TORUS_TPU_KERNELS_COLLECTIVES_H_
