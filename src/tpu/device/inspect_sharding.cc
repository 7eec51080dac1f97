// Calls found, answered and removed.
#include "tpu/device/inspect_sharding.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "tpu/program/convert.h"
#include "tpu/program/hlo_attributes.h"

namespace torus::tpu {
namespace {

using program::HloComputation;
using program::HloInstruction;
using program::HloModule;

// What jaxlib and a plugin's compiler say to each other.
struct Question {
  char* sharding;  // a serialized xla.OpSharding
  size_t sharding_size;
  const char* error;  // set by the function, null else
  void* error_owner;
  void (*free_error)(Question*);
};
struct Callback {
  void (*call)(void* data, Question*);
  void* data;
};

bool IsInspection(const HloInstruction& instruction) {
  return instruction.custom_call_target == "InspectSharding" && instruction.operands.size() == 1;
}

bool HasInspection(const HloModule& module) {
  return std::ranges::any_of(module.computations, [](const HloComputation& computation) {
    return std::ranges::any_of(computation.instructions, IsInspection);
  });
}

Status Answer(const HloInstruction& inspection, std::string sharding) {
  Callback callback{};
  if (inspection.backend_config.size() != sizeof callback) {
    return InvalidArgument("The InspectSharding '{}' has no function to call.", inspection.name);
  }
  std::memcpy(&callback, inspection.backend_config.data(), sizeof callback);
  Question question{sharding.data(), sharding.size(), nullptr, nullptr, nullptr};
  callback.call(callback.data, &question);
  if (question.error == nullptr) return Status();
  const Status error = Internal("inspect_array_sharding: {}", question.error);
  if (question.free_error != nullptr) question.free_error(&question);
  return error;
}

Status AnswerAll(const HloModule& sharded) {
  for (const auto& computation : sharded.computations) {
    for (const auto& instruction : computation.instructions) {
      if (!IsInspection(instruction)) continue;
      const HloInstruction& value = *computation.Find(instruction.operands[0]);
      // An empty OpSharding is a replicated one.
      TORUS_RETURN_IF_ERROR(
          Answer(instruction, std::string(program::ShardingOf(value).value_or(""))));
    }
  }
  return Status();
}

}  // namespace

Result<bool> InspectShardings(pjrt::Engine& engine, PJRT_Client* client, HloModule& module,
                              std::string_view compile_options) {
  if (!HasInspection(module)) return false;
  TORUS_ASSIGN_OR_RETURN(const HloModule sharded,
                         program::ShardedHlo(engine, client, module, compile_options));
  TORUS_RETURN_IF_ERROR(AnswerAll(sharded));
  for (auto& computation : module.computations) {
    std::erase_if(computation.instructions, IsInspection);
  }
  return true;
}

}  // namespace torus::tpu
