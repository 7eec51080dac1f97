// What passes have in common: turning an instruction into a call of our own code, and replacing
// one instruction by another. Thread-safety: as of the values they are given.
#ifndef TORUS_TPU_PROGRAM_EDIT_H_
#define TORUS_TPU_PROGRAM_EDIT_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tpu/program/hlo.h"

namespace torus::program {

// The shape with its arrays in row-major order.
HloShape RowMajor(const HloShape& shape);

// Turns the instruction into a custom call of typed-FFI version to `target`, on arrays in row-major
// order. `attributes` is the text of an MLIR dictionary: "{channel = 3 : i64}". Sharding, metadata
// and frontend attributes stay. REQUIRES: its operands are in `computation`.
void MakeFfiCall(const HloComputation& computation, HloInstruction& instruction,
                 std::string_view target, std::string_view attributes, bool has_side_effect);

// Takes from an instruction what only a custom call has, for one that becomes something else.
void ForgetCall(HloInstruction& instruction);

// Removes instructions and lets their users use others in their place: ids, old to new.
void Replace(HloComputation& computation, const std::map<int64_t, int64_t>& replacements);

// An id that no instruction of the module has, for a new one of `computation`.
int64_t NewId(const HloModule& module, const HloComputation& computation);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_EDIT_H_
