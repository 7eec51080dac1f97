// What a profile says of an instruction. Thread-safety: pure functions.
#ifndef TORUS_TPU_PROGRAM_DESCRIBE_H_
#define TORUS_TPU_PROGRAM_DESCRIBE_H_

#include <string>

#include "tpu/program/hlo.h"

namespace torus::program {

// "%add.3 = f32[8]{0} add(f32[8]{0} %a.1, f32[8]{0} %b.2)", as HLO's text begins.
std::string TextOf(const HloComputation& computation, const HloInstruction& instruction);

// XLA's category: "loop fusion", "convolution fusion", "data formatting", "non-fusion elementwise",
// and otherwise the opcode.
std::string CategoryOf(const HloModule& module, const HloInstruction& instruction);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_DESCRIBE_H_
