// Makes the instructions that a pass puts before the one it rewrites.
//
// Each new instruction has the sharding of the one that it stands for (so that what is manual stays
// manual) and a name that begins with the pass's word. Thread-safety: as of the values it is given.
#ifndef TORUS_TPU_PROGRAM_MAKER_H_
#define TORUS_TPU_PROGRAM_MAKER_H_

#include <string>
#include <string_view>
#include <vector>

#include "tpu/program/hlo.h"
#include "tpu/program/hlo_attributes.h"

namespace torus::program {

class Maker {
 public:
  using Dimensions = std::vector<int64_t>;

  // REQUIRES: until PutBefore, no other instruction is added to `module`; `module`, `computation`
  // and `instruction` live as long as this.
  Maker(const HloModule& module, const HloComputation& computation,
        const HloInstruction& instruction, std::string_view word);

  // Each makes an instruction and returns its id.
  int64_t Make(std::string opcode, HloShape shape, Dimensions operands, Dimensions dimensions = {});
  // `direction`: "LT", "GE", ... of integers of the shape `of`.
  int64_t Compare(const char* direction, const HloShape& of, int64_t a, int64_t b);
  // A value of the type, which it must be able to hold, in each element.
  int64_t Fill(ElementType type, Dimensions dimensions, int64_t value);
  // A list of these values: s64, f32.
  int64_t Constant(const std::vector<int64_t>& values);
  int64_t Constant(const std::vector<float>& values);
  // The slices of the array, one for each number of the list `index`, which is the slice's place in
  // the array's dimension `at` and, in the result, `shape`, the slice's place there. An index
  // outside of the array is moved inside.
  int64_t Gather(int64_t array, int64_t index, HloShape shape, int64_t at, const Dimensions& slice);
  int64_t Dot(HloShape shape, int64_t lhs, int64_t rhs, const DotDimensions& dimensions);

  // The one made last, for what it has beside operands and shape.
  HloInstruction& last() { return made_.back(); }

  // Inserts what was made before the instruction at `at`; how many they were.
  size_t PutBefore(HloComputation& computation, size_t at);

 private:
  int64_t Literal(HloShape shape, std::string_view values);

  int64_t next_id_;
  std::string word_;
  std::string others_;  // of each new instruction
  std::vector<HloInstruction> made_;
};

void SetDotDimensions(HloInstruction& dot, const DotDimensions& dimensions);

// [first, first + 1, ...]
Maker::Dimensions Iota(size_t count, int64_t first);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_MAKER_H_
