// Handlers: they hand the call's buffers to the meeting, which ends the call.
#include "tpu/device/collectives.h"

#include <cstring>

#include "tpu/device/host_callbacks.h"
#include "tpu/device/state.h"
#include "tpu/pjrt/ffi.h"

namespace ffi = torus::pjrt::ffi;

namespace torus::tpu {
namespace {

kernels::Operand OperandOf(const ffi::Buffer& buffer) {
  const auto dimensions = buffer.dimensions();
  return {.type = static_cast<program::ElementType>(buffer.dtype),
          .dimensions = {dimensions.begin(), dimensions.end()},
          .data = static_cast<const char*>(buffer.data)};
}

Result<kernels::Member> MemberOf(const ffi::CallFrame& call, int64_t device) {
  kernels::Member member{.replica = device, .operands = {}, .results = {}};
  for (int64_t i = 0; i < call.results.size; ++i) {  // what follows is weight
    member.operands.push_back(OperandOf(*call.arguments.buffers[i]));
  }
  for (int64_t i = 0; i < call.results.size; ++i) {
    const ffi::Buffer& result = *call.results.buffers[i];
    TORUS_ASSIGN_OR_RETURN(const size_t bytes, OperandOf(result).Bytes());
    member.results.emplace_back(static_cast<char*>(result.data), bytes);
  }
  return member;
}

Result<std::shared_ptr<Launch>> LaunchOf(const ffi::CallFrame& call) {
  if (auto launch = FindLaunch(call)) return launch;
  return FailedPrecondition(
      "A program of several replicas runs without its slice: it was compiled for PyTorch/XLA, "
      "which "
      "names the device of each run.");
}

Status Meet(ffi::CallFrame& call) {
  TORUS_ASSIGN_OR_RETURN(const auto launch, LaunchOf(call));
  Part part;
  part.key = {.launch = launch->number,
              .place = ffi::FindInt(call, program::kPlaceAttribute).value_or(0)};
  TORUS_ASSIGN_OR_RETURN(part.collective, program::Collective::FromInts(
                                              ffi::FindInts(call, program::kCollectiveAttribute)));
  TORUS_ASSIGN_OR_RETURN(part.member, MemberOf(call, launch->device));
  {
    const MutexLock lock(launch->mutex);
    part.key.round = launch->rounds[part.key.place]++;
  }
  TORUS_ASSIGN_OR_RETURN(auto completion, ffi::Completion::Defer(call));
  part.done = [completion](const Status& status) mutable { completion.Finish(status); };
  launch->meetings->Join(std::move(part));
  return Status();
}

// -> u32[]: which replica it is.
Status Replica(ffi::CallFrame& call) {
  TORUS_ASSIGN_OR_RETURN(const auto launch, LaunchOf(call));
  *static_cast<uint32_t*>(call.results.buffers[0]->data) = static_cast<uint32_t>(launch->device);
  return Status();
}

Status Weight(ffi::CallFrame& call) {
  const ffi::Buffer& numbers = *call.results.buffers[0];
  std::memset(numbers.data, 0, numbers.bytes(sizeof(float)));
  return Status();
}

}  // namespace

std::shared_ptr<Launch> NextLaunch(Device& device) {
  auto launch = std::make_shared<Launch>();
  launch->meetings = device.client->meetings;
  launch->device = device.identity->id;
  launch->number = device.launches.fetch_add(1);
  return launch;
}

Status RegisterCollectives(pjrt::Engine& engine) {
  TORUS_RETURN_IF_ERROR(ffi::Register(engine, program::kCollectiveTarget, ffi::Handler<Meet>));
  TORUS_RETURN_IF_ERROR(ffi::Register(engine, program::kWeightTarget, ffi::Handler<Weight>));
  return ffi::Register(engine, program::kReplicaTarget, ffi::Handler<Replica>);
}

}  // namespace torus::tpu
