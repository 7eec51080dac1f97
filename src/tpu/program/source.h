// Where an instruction came from, also where XLA keeps it in the module's table of stack frames.
// Thread-safety: pure functions.
#ifndef TORUS_TPU_PROGRAM_SOURCE_H_
#define TORUS_TPU_PROGRAM_SOURCE_H_

#include <string>

#include "tpu/program/hlo.h"
#include "tpu/program/hlo_attributes.h"

namespace torus::program {

// As SourceOfInstruction, but with the file that the table has.
SourceOf FindSource(const HloModule& module, const HloInstruction& instruction);

// "jit(step)/dot_general at train.py:12"; what is not known is left out.
std::string SourceText(const HloModule& module, const HloInstruction& instruction);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_SOURCE_H_
