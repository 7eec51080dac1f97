// send, send-done, recv and recv-done of the host become one call each, on the same channel.
//
//   send: (data, token) -> (data, u32, token), send-done: -> token
//     becomes a call (data, token) -> token
//   recv: token -> (data, u32, token), recv-done: -> (data, token)
//     becomes a call token -> (data, token)
//
// A call ends when its data is gone or there, so it stands for the done, too, whose results and
// whose sharding it has. Transfers between devices stay.
#include "tpu/program/edit.h"
#include "tpu/program/hlo_attributes.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/wire.h"

namespace torus::program {
namespace {

// xla.HloInstructionProto
constexpr protozero::pbf_tag_type kSharding = 40;

bool IsTransfer(const HloInstruction& instruction) {
  const auto& opcode = instruction.opcode;
  return (opcode == "send" || opcode == "send-done" || opcode == "recv" || opcode == "recv-done") &&
         !instruction.operands.empty() && IsHostTransfer(instruction);
}

void RewriteStart(const HloComputation& computation, HloInstruction& transfer) {
  const auto channel = fmt::format("{{{} = {} : i64}}", kChannelAttribute, transfer.channel_id);
  MakeFfiCall(computation, transfer, transfer.opcode == "send" ? kSendTarget : kRecvTarget, channel,
              /*has_side_effect=*/true);
}

void TakeResultsOf(const HloInstruction& done, HloInstruction& call) {
  call.shape = RowMajor(done.shape);
  call.others = wire::Without(call.others, kSharding);
  if (const auto sharding = ShardingOf(done)) {
    protozero::pbf_writer(call.others).add_message(kSharding, sharding->data(), sharding->size());
  }
}

}  // namespace

Result<bool> RewriteHostTransfers(HloModule& module) {
  bool changed = false;
  for (auto& computation : module.computations) {
    std::map<int64_t, int64_t> dones;  // and the calls that stand for them
    for (auto& instruction : computation.instructions) {
      if (!IsTransfer(instruction)) continue;
      changed = true;
      if (instruction.opcode.ends_with("-done")) {
        HloInstruction& call = *computation.Find(instruction.operands.front());
        if (call.custom_call_target != kSendTarget && call.custom_call_target != kRecvTarget) {
          return InvalidArgument("The {} '{}' ends no transfer but '{}'.", instruction.opcode,
                                 instruction.name, call.name);
        }
        TakeResultsOf(instruction, call);
        dones.emplace(instruction.id, call.id);
      } else {
        RewriteStart(computation, instruction);
      }
    }
    Replace(computation, dones);
  }
  return changed;
}

}  // namespace torus::program
