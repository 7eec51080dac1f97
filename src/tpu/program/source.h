// Where an instruction came from, also where XLA keeps it in the module's table of stack frames.
// Thread-safety: pure functions.
#ifndef TORUS_TPU_PROGRAM_SOURCE_H_
#define TORUS_TPU_PROGRAM_SOURCE_H_

#include <string>

#include "tpu/program/hlo.h"

namespace torus::program {

// "jit(step)/dot_general at train.py:12"; what is not known is left out.
std::string SourceText(const HloModule& module, const HloInstruction& instruction);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_SOURCE_H_
