// Marks: calls put between the operations of a program, to tell when each begins and ends.
//
// They go into a program that is optimized and scheduled, so they change none of its operations.
// One mark stands before the first operation of a computation that runs (the entry, the body of a
// loop, ...), one between each two and one behind the last; each waits for the operation before it,
// and the one after it waits for the mark. So operations run one after the other, as on a TPU, and
// a mark is the end of one and the beginning of the next.
// Thread-safety: pure functions.
#ifndef TORUS_TPU_PROGRAM_MARKS_H_
#define TORUS_TPU_PROGRAM_MARKS_H_

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "tpu/program/hlo.h"

namespace torus::program {

// The custom call of a mark; its attribute kMarkAttribute, an i64, is its number.
inline constexpr char kMarkTarget[] = "torus.mark";
inline constexpr char kMarkAttribute[] = "mark";

struct Mark {
  static constexpr int kNone = -1;

  int ends = kNone;    // the operation that ends here, by its place in Marks::operations
  int begins = kNone;  // the one that begins here
  bool program_begins = false, program_ends = false;
};

struct Marks {
  struct Operation {
    int64_t computation = 0;
    int64_t instruction = 0;
  };
  std::vector<Operation> operations;  // ids in the module as it was
  std::vector<Mark> marks;            // by number
};

// Puts marks into the module and its schedule. An operation that cannot be made to wait for a mark
// (it has only constants as operands) or that a mark cannot wait for (its result is a token) gets
// none of its own. INVALID_ARGUMENT where the module has no schedule of its entry.
Result<Marks> AddMarks(HloModule& module);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_MARKS_H_
