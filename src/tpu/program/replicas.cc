#include "tpu/program/replicas.h"

#include <algorithm>

#include "tpu/program/hlo_attributes.h"

namespace torus::program {
namespace {

// Each begins the names of its asynchronous forms, too ("all-reduce-start").
constexpr std::string_view kOpcodes[] = {
    "all-gather",     "all-reduce", "all-to-all", "collective-", "ragged-all-to-all",
    "reduce-scatter", "replica-id", "send",       "recv",
};

}  // namespace

bool NeedsOtherReplicas(const HloModule& module) {
  const auto needs = [](const HloInstruction& instruction) {
    return !IsHostTransfer(instruction) && std::ranges::any_of(kOpcodes, [&](auto opcode) {
      return instruction.opcode.starts_with(opcode);
    });
  };
  return std::ranges::any_of(module.computations, [&](const HloComputation& computation) {
    return std::ranges::any_of(computation.instructions, needs);
  });
}

}  // namespace torus::program
