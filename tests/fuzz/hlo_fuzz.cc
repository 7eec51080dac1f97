// HLO: what is read is written to something equal, and no rewrite breaks a module.
#include "fuzz.h"
#include "tpu/program/hlo.h"
#include "tpu/program/hlo_attributes.h"
#include "tpu/program/rewrite.h"

namespace torus::fuzz {

void Fuzz(std::string_view input) {
  auto module = program::ReadHlo(input);
  if (!module) return;
  const auto written = program::WriteHlo(*module);
  const auto again = program::ReadHlo(written);
  Check(again.has_value(), "what was written is read again");
  Check(program::WriteHlo(*again) == written, "writing is stable");
  for (const auto& computation : module->computations) {
    for (const auto& instruction : computation.instructions) {
      instruction.shape.ToString();
      program::WindowOf(instruction);
      program::ConvolutionDimensionsOf(instruction);
      program::RaggedDotDimensionsOf(instruction);
      program::FrontendAttributesOf(instruction);
      program::SourceOfInstruction(instruction);
    }
  }
  program::ProgramShapeOf(*module);
  program::AliasesOf(*module);
  const auto changed = program::Rewrite(*module);
  if (!changed) return;
  Check(program::ReadHlo(program::WriteHlo(*module)).has_value(), "a rewritten module is whole");
}

}  // namespace torus::fuzz
