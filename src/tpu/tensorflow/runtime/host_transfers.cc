#include "tpu/tensorflow/runtime/host_transfers.h"

#include <utility>

#include "tpu/pjrt/args.h"
#include "tpu/program/hlo_attributes.h"
#include "tpu/tensorflow/runtime/callbacks.h"
#include "tpu/tensorflow/runtime/tpu.h"

namespace torus::tensorflow {
namespace {

using pjrt::MakeArgs;

// Of the frontend attributes of a transfer: XLA's name for its name.
constexpr char kNameAttribute[] = "_xla_host_transfer_rendezvous";
// Of a run that others take part in.
constexpr int kBearableFailures = 1000;

size_t BytesOf(PJRT_CopyToDeviceStream* stream) {
  auto args = MakeArgs<PJRT_CopyToDeviceStream_TotalBytes_Args>();
  args.stream = stream;
  if (!Take(Tpu::api(), Tpu::api()->PJRT_CopyToDeviceStream_TotalBytes(&args)).ok()) return 0;
  return static_cast<size_t>(args.total_bytes);
}

Status Add(PJRT_CopyToDeviceStream* stream, std::string data) {
  TORUS_ASSIGN_OR_RETURN(const auto* tpu, Tpu::Get());
  auto* owned = new std::string(std::move(data));
  PJRT_Chunk chunk{owned->data(), owned->size(),
                   [](void*, void* data) { delete static_cast<std::string*>(data); }, owned};
  auto args = MakeArgs<PJRT_CopyToDeviceStream_AddChunk_Args>();
  args.stream = stream;
  args.chunk = &chunk;
  TORUS_RETURN_IF_ERROR(tpu->Take(Tpu::api()->PJRT_CopyToDeviceStream_AddChunk(&args)));
  tpu->WhenReady(args.transfer_complete, [](const Status&) {});
  return Status();
}

// Ends the receive, with an error where not all of it came.
void End(PJRT_CopyToDeviceStream* stream) {
  auto args = MakeArgs<PJRT_CopyToDeviceStream_Destroy_Args>();
  args.stream = stream;
  Take(Tpu::api(), Tpu::api()->PJRT_CopyToDeviceStream_Destroy(&args)).ok();
}

}  // namespace

Result<std::vector<HostTransfer>> HostTransfersOf(const program::HloModule& module) {
  std::vector<HostTransfer> transfers;
  for (const auto& computation : module.computations) {
    for (const auto& instruction : computation.instructions) {
      const bool to_host = instruction.opcode == "send";
      if (!to_host && instruction.opcode != "recv") continue;
      if (!IsHostTransfer(instruction) || instruction.shape.tuple.empty()) continue;
      const auto attributes = FrontendAttributesOf(instruction);
      const auto name = attributes.find(kNameAttribute);
      if (name == attributes.end())
        return InvalidArgument("the {} \"{}\" of the host has no name", instruction.opcode,
                               instruction.name);
      const auto& data = instruction.shape.tuple.front();
      transfers.push_back({.channel = instruction.channel_id,
                           .name = name->second,
                           .to_host = to_host,
                           .type = data.element_type,
                           .dimensions = data.dimensions});
    }
  }
  return transfers;
}

HostRun::HostRun(Transfers transfers, std::shared_ptr<Host> host, bool joint)
    : transfers_(std::move(transfers)),
      host_(std::move(host)),
      bearable_(joint ? kBearableFailures : 0) {
  lines_.reserve(transfers_->size());  // which the lists point into
  for (const auto& transfer : *transfers_) {
    auto* line = &lines_.emplace_back(this, &transfer);
    if (transfer.to_host)
      sends_.push_back({transfer.channel, line, OnSend});
    else
      recvs_.push_back({transfer.channel, line, OnRecv});
  }
}

Status HostRun::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

bool HostRun::Bears(Status failure) {
  {
    const MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(failure);
  }
  return bearable_-- > 0;
}

PJRT_Error* HostRun::OnSend(PJRT_Chunk* chunk, PJRT_CallbackError* make_error, size_t, bool whole,
                            void* line) {
  const auto [run, transfer] = *static_cast<Line*>(line);
  auto status = Status(Internal("\"{}\" came in pieces", transfer->name).error());
  if (whole) {
    const std::string_view data(static_cast<const char*>(chunk->data), chunk->size);
    status = run->host_->Take(*transfer, data);
  }
  chunk->deleter(chunk->data, chunk->deleter_arg);
  if (status.ok() || run->Bears(status)) return nullptr;
  return (*make_error)(static_cast<PJRT_Error_Code>(status.code()), status.message().data(),
                       status.message().size());
}

void HostRun::OnRecv(PJRT_CopyToDeviceStream* stream, void* line) {
  const auto [run, transfer] = *static_cast<Line*>(line);
  // What follows in the program may run on the thread that feeds it, and wait for other devices.
  run->host_->Give(*transfer, [self = run->shared_from_this(), transfer, stream](auto data) {
    CallBack([self, transfer, stream, data] { self->Feed(stream, *transfer, data); });
  });
}

void HostRun::Feed(PJRT_CopyToDeviceStream* stream, const HostTransfer& transfer,
                   Result<std::string> data) {
  const size_t size = BytesOf(stream);
  if (data && data->size() != size)
    data = Internal("\"{}\" is {} bytes where {} were expected", transfer.name, data->size(), size);
  Status status;
  if (data)
    status = Add(stream, *std::move(data));
  else if (Bears(data.error()))
    status = Add(stream, std::string(size, '\0'));
  if (!status.ok()) Bears(std::move(status));
  End(stream);
}

}  // namespace torus::tensorflow
