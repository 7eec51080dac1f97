// The callbacks of a run, the two calls that find them, and the stream that a recv is filled by.
#include "tpu/device/host_callbacks.h"

#include <algorithm>
#include <cstring>

#include "tpu/device/helper_threads.h"
#include "tpu/program/hlo.h"
#include "tpu/program/rewrite.h"

namespace ffi = torus::pjrt::ffi;

namespace torus::tpu {
namespace {

using pjrt::Ample;
using pjrt::MakeArgs;
using pjrt::NewError;

// ---- The callbacks of one run

// One device's. Lists are short, as a program has few callbacks.
struct Lane {
  int device_id;
  std::vector<PJRT_SendCallbackInfo> sends;
  std::vector<PJRT_RecvCallbackInfo> recvs;
};

// Lives until the last device has ended.
struct Exchange {
  PJRT_ExecuteContext* context = nullptr;
  std::vector<Lane> lanes;
  std::shared_ptr<const TracedRun> run;
  std::shared_ptr<Launch> launch;
  std::atomic<size_t> running = 0;
};

// The type of an Exchange as user data of a run; 0: the engine does not know the calls.
std::atomic<int64_t> exchange_type = 0;

Result<const Lane*> FindLane(const ffi::CallFrame& call) {
  const auto* exchange = static_cast<const Exchange*>(ffi::FindUserData(call, exchange_type));
  if (exchange == nullptr || exchange->lanes.empty()) {
    return FailedPrecondition(
        "The program has host callbacks, and this run was given none: the Python function of a "
        "callback does not travel with an exported or serialized program.");
  }
  const auto& lanes = exchange->lanes;
  if (lanes.size() == 1) return &lanes.front();
  const auto device = ffi::DeviceOrdinal(call);
  if (!device) {
    return Unimplemented(
        "The engine does not tell which device calls the host, so a program with host callbacks "
        "runs on one device only. scripts/deps.sh fetches an engine that does.");
  }
  const auto found = std::ranges::find(lanes, *device, &Lane::device_id);
  if (found == lanes.end()) return Internal("Device {} is not one of this run's.", *device);
  return &*found;
}

template <typename Info>
Result<Info> FindCallback(const ffi::CallFrame& call, std::vector<Info> Lane::*list) {
  TORUS_ASSIGN_OR_RETURN(const Lane* lane, FindLane(call));
  const auto channel = ffi::FindInt(call, program::kChannelAttribute);
  const auto& callbacks = lane->*list;
  const auto found = std::ranges::find(callbacks, channel.value_or(-1), &Info::channel_id);
  if (found != callbacks.end()) return *found;
  return FailedPrecondition("No host callback of this run is for the channel {}.",
                            channel.value_or(-1));
}

// What a buffer is to the host. A number of less than a byte has a byte of its own there, and the
// engine packs as many as fit into one, the first lowest.
struct HostArray {
  explicit HostArray(const ffi::Buffer& buffer)
      : data(static_cast<char*>(buffer.data)),
        bits(program::BitsOf(static_cast<program::ElementType>(buffer.dtype))),
        is_signed(
            program::NameOf(static_cast<program::ElementType>(buffer.dtype)).starts_with('s')),
        bytes(buffer.bytes(static_cast<size_t>(bits + 7) / 8)) {}

  void CopyTo(char* host) const {
    if (bits >= 8) return void(std::memcpy(host, data, bytes));
    const int each = 8 / bits, unused = 8 - bits;
    for (size_t i = 0; i < bytes; ++i) {
      const auto shifted = static_cast<uint8_t>(static_cast<uint8_t>(data[i / each])
                                                << (unused - bits * static_cast<int>(i % each)));
      host[i] = is_signed ? static_cast<char>(static_cast<int8_t>(shifted) >> unused)
                          : static_cast<char>(shifted >> unused);
    }
  }

  // Takes `size` bytes of the host's from number `at` on. They come in order.
  void CopyFrom(const char* host, size_t at, size_t size) const {
    if (bits >= 8) return void(std::memcpy(data + at, host, size));
    const size_t each = 8 / bits;
    const int mask = (1 << bits) - 1;
    for (size_t i = at; i < at + size; ++i) {
      if (i % each == 0) data[i / each] = 0;
      const int shifted = (host[i - at] & mask) << (bits * static_cast<int>(i % each));
      data[i / each] = static_cast<char>(data[i / each] | shifted);
    }
  }

  char* data;
  int bits;
  bool is_signed;
  size_t bytes;  // on the host
};

// ---- Sending

void FreeChunk(void* data, void*) { delete[] static_cast<char*>(data); }

PJRT_Error* MakeCallbackError(PJRT_Error_Code code, const char* message, size_t size) {
  return NewError(Status(static_cast<Code>(code), std::string(message, size)));
}

// Hands the data to the framework, which runs the callback here once it has all its arguments.
Status CallSend(const PJRT_SendCallbackInfo& callback, const HostArray& array) {
  auto* copy = new char[std::max<size_t>(array.bytes, 1)];
  array.CopyTo(copy);
  PJRT_Chunk chunk{copy, array.bytes, FreeChunk, nullptr};
  PJRT_CallbackError make_error = MakeCallbackError;
  PJRT_Error* error =
      callback.send_callback(&chunk, &make_error, array.bytes, /*done=*/true, callback.user_arg);
  return state().engine.Take(error);
}

Status Send(ffi::CallFrame& call) {
  TORUS_ASSIGN_OR_RETURN(const auto callback, FindCallback(call, &Lane::sends));
  const HostArray array(*call.arguments.buffers[0]);
  TORUS_ASSIGN_OR_RETURN(auto completion, ffi::Completion::Defer(call));
  RunOnHelper(
      [callback, completion, array]() mutable { completion.Finish(CallSend(callback, array)); });
  return Status();
}

// ---- Receiving

// What a recv waits for: the framework writes the data, once, in any number of chunks.
struct Stream {
  ffi::Completion completion;
  HostArray array;
  size_t current = 0;  // bytes on the host
  bool ended = false;

  void End(const Status& status) {
    if (std::exchange(ended, true)) return;  // the call is gone, and what it waited with
    completion.Finish(status);
  }
};

PJRT_CopyToDeviceStream* ToPjrt(Stream* stream) {
  return reinterpret_cast<PJRT_CopyToDeviceStream*>(stream);
}
Stream* FromPjrt(PJRT_CopyToDeviceStream* stream) { return reinterpret_cast<Stream*>(stream); }

Status Recv(ffi::CallFrame& call) {
  TORUS_ASSIGN_OR_RETURN(const auto callback, FindCallback(call, &Lane::recvs));
  const HostArray array(*call.results.buffers[0]);
  TORUS_ASSIGN_OR_RETURN(const auto completion, ffi::Completion::Defer(call));
  callback.recv_callback(ToPjrt(new Stream{completion, array}), callback.user_arg);
  return Status();
}

// An event that is ready: the chunk is copied when AddChunk returns.
Result<PJRT_Event*> ReadyEvent(State& s) {
  auto create = MakeArgs<pjrt::EventCreateArgs>();
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kEvent_Create, &create)));
  auto set = MakeArgs<pjrt::EventSetArgs>();
  set.event = create.event;
  set.error_message = "";
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kEvent_Set, &set)));
  return create.event;
}

PJRT_Error* AddChunk(Stream& stream, PJRT_CopyToDeviceStream_AddChunk_Args* args) {
  const PJRT_Chunk chunk = *args->chunk;
  const size_t left = stream.array.bytes - stream.current;
  const bool fits = chunk.size <= left;
  if (fits) {
    stream.array.CopyFrom(static_cast<const char*>(chunk.data), stream.current, chunk.size);
  }
  chunk.deleter(chunk.data, chunk.deleter_arg);
  if (!fits) {
    return NewError(InvalidArgument("A host callback returned {} bytes where {} are left of {}.",
                                    chunk.size, left, stream.array.bytes));
  }
  const auto event = ReadyEvent(state());
  if (!event) return NewError(event.error());
  args->transfer_complete = *event;
  stream.current += chunk.size;
  if (stream.current == stream.array.bytes) stream.End(Status());
  return nullptr;
}

PJRT_Error* Destroy(Stream& stream, PJRT_CopyToDeviceStream_Destroy_Args*) {
  stream.End(stream.current == stream.array.bytes
                 ? Status()  // of no bytes: no chunk came
                 : Internal("A host callback ended after {} of its result's {} bytes.",
                            stream.current, stream.array.bytes));
  delete &stream;
  return nullptr;
}

PJRT_Error* TotalBytes(Stream& stream, PJRT_CopyToDeviceStream_TotalBytes_Args* args) {
  args->total_bytes = static_cast<int64_t>(stream.array.bytes);
  return nullptr;
}

PJRT_Error* GranuleSize(Stream&, PJRT_CopyToDeviceStream_GranuleSize_Args* args) {
  args->granule_size_in_bytes = 1;
  return nullptr;
}

PJRT_Error* CurrentBytes(Stream& stream, PJRT_CopyToDeviceStream_CurrentBytes_Args* args) {
  args->current_bytes = static_cast<int64_t>(stream.current);
  return nullptr;
}

// The PJRT function of one of these.
template <typename Args, PJRT_Error* (*kFunction)(Stream&, Args*)>
PJRT_Error* OnStream(Args* args) {
  if (!state().engine.status().ok()) return NewError(state().engine.status());
  if (args->stream == nullptr) return NewError(InvalidArgument("The stream is null."));
  return kFunction(*FromPjrt(args->stream), args);
}

// ---- Running

// The caller's lists are its own again when Execute returns, so they are copied.
std::unique_ptr<Exchange> MakeExchange(const PJRT_ExecuteOptions* options,
                                       const std::vector<Device*>& devices) {
  auto exchange = std::make_unique<Exchange>();
  for (size_t d = 0; HasHostCallbacks(options) && d < devices.size(); ++d) {
    Lane lane{.device_id = devices[d]->identity->id, .sends = {}, .recvs = {}};
    if (options->num_send_ops > 0) {
      const auto* sends = options->send_callbacks[d];
      lane.sends.assign(sends, sends + options->num_send_ops);
    }
    if (options->num_recv_ops > 0) {
      const auto* recvs = options->recv_callbacks[d];
      lane.recvs.assign(recvs, recvs + options->num_recv_ops);
    }
    exchange->lanes.push_back(std::move(lane));
  }
  return exchange;
}

Status MakeContext(State& s, Exchange& exchange) {
  auto create = MakeArgs<PJRT_ExecuteContext_Create_Args>();
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kExecuteContext_Create, &create)));
  exchange.context = create.context;
  return ffi::AddUserData(s.engine, create.context, exchange_type, &exchange);
}

void Free(Exchange* exchange) {
  State& s = state();
  auto destroy = MakeArgs<PJRT_ExecuteContext_Destroy_Args>();
  destroy.context = exchange->context;
  if (destroy.context != nullptr) {
    s.engine.Take(s.engine.Call(pjrt::kExecuteContext_Destroy, &destroy)).ok();
  }
  delete exchange;
}

void OnDeviceEnd(PJRT_Error* error, void* argument) {
  state().engine.Take(error).ok();  // The caller hears of it by its own event.
  auto* exchange = static_cast<Exchange*>(argument);
  if (exchange->running.fetch_sub(1) == 1) Free(exchange);
}

// Frees the exchange when each device has ended, and the events if they are ours.
void FreeAtEnd(State& s, Exchange* exchange, std::span<PJRT_Event*> events, bool ours) {
  exchange->running = events.size();
  for (PJRT_Event* event : events) {
    auto on_ready = MakeArgs<PJRT_Event_OnReady_Args>();
    on_ready.event = event;
    on_ready.callback = OnDeviceEnd;
    on_ready.user_arg = exchange;
    // Without its event nothing says when a device has ended: the exchange is then kept for ever.
    s.engine.Take(s.engine.Call(pjrt::kEvent_OnReady, &on_ready)).ok();
    if (!ours) continue;
    auto destroy = MakeArgs<PJRT_Event_Destroy_Args>();
    destroy.event = event;
    s.engine.Take(s.engine.Call(pjrt::kEvent_Destroy, &destroy)).ok();
  }
}

}  // namespace

Status RegisterHostCallbacks(pjrt::Engine& engine) {
  TORUS_RETURN_IF_ERROR(ffi::Register(engine, program::kSendTarget, ffi::Handler<Send>));
  TORUS_RETURN_IF_ERROR(ffi::Register(engine, program::kRecvTarget, ffi::Handler<Recv>));
  TORUS_ASSIGN_OR_RETURN(const int64_t type, ffi::RegisterType(engine, "torus.exchange"));
  exchange_type = type;
  return Status();
}

bool HasHostCallbacks(const PJRT_ExecuteOptions* options) {
  return options != nullptr && TORUS_PJRT_HAS(options, num_recv_ops) &&
         (options->num_send_ops > 0 || options->num_recv_ops > 0);
}

bool HasOwnContext(const PJRT_ExecuteOptions* options) {
  return options != nullptr && TORUS_PJRT_HAS(options, context) && options->context != nullptr;
}

bool NeedsContext(const Program& program, const PJRT_ExecuteOptions* options) {
  if (HasHostCallbacks(options)) return true;
  return program.facts != nullptr && program.facts->asks_for_run && !HasOwnContext(options);
}

const TracedRun* FindTracedRun(const ffi::CallFrame& call) {
  const auto* exchange = static_cast<const Exchange*>(ffi::FindUserData(call, exchange_type));
  return exchange == nullptr ? nullptr : exchange->run.get();
}

std::shared_ptr<Launch> FindLaunch(const ffi::CallFrame& call) {
  const auto* exchange = static_cast<const Exchange*>(ffi::FindUserData(call, exchange_type));
  return exchange == nullptr ? nullptr : exchange->launch;
}

PJRT_Error* ExecuteWithContext(State& s, PJRT_LoadedExecutable_Execute_Args* args,
                               const std::vector<Device*>& devices,
                               std::shared_ptr<const TracedRun> run,
                               std::shared_ptr<Launch> launch) {
  if (HasOwnContext(args->options)) {
    return NewError(Unimplemented(
        "A run has both host callbacks and an execute context of the caller's; give it one."));
  }
  auto exchange = MakeExchange(args->options, devices);
  exchange->run = std::move(run);
  exchange->launch = std::move(launch);
  if (const Status made = MakeContext(s, *exchange); !made.ok()) {
    Free(exchange.release());
    return NewError(made);
  }
  Ample<PJRT_ExecuteOptions> options(args->options);
  options->send_callbacks = nullptr;
  options->recv_callbacks = nullptr;
  options->num_send_ops = options->num_recv_ops = 0;
  options->context = exchange->context;

  std::vector<PJRT_Event*> own_events(args->num_devices);
  const bool ours = args->device_complete_events == nullptr;
  if (ours) args->device_complete_events = own_events.data();
  auto* const own_options = std::exchange(args->options, options.get());
  PJRT_Error* error = s.engine.Call(pjrt::kLoadedExecutable_Execute, args);
  args->options = own_options;
  const std::span events(args->device_complete_events, args->num_devices);
  if (error == nullptr) {
    FreeAtEnd(s, exchange.release(), events, ours);
  } else if (args->num_devices == 1) {
    Free(exchange.release());
  } else {
    exchange.release();  // Other devices may have begun, and nothing says when they end.
  }
  if (ours) args->device_complete_events = nullptr;
  return error;
}

void OverrideStreamFunctions(pjrt::Table& table) {
  Override(table, pjrt::kCopyToDeviceStream_Destroy,
           OnStream<PJRT_CopyToDeviceStream_Destroy_Args, Destroy>);
  Override(table, pjrt::kCopyToDeviceStream_AddChunk,
           OnStream<PJRT_CopyToDeviceStream_AddChunk_Args, AddChunk>);
  Override(table, pjrt::kCopyToDeviceStream_TotalBytes,
           OnStream<PJRT_CopyToDeviceStream_TotalBytes_Args, TotalBytes>);
  Override(table, pjrt::kCopyToDeviceStream_GranuleSize,
           OnStream<PJRT_CopyToDeviceStream_GranuleSize_Args, GranuleSize>);
  Override(table, pjrt::kCopyToDeviceStream_CurrentBytes,
           OnStream<PJRT_CopyToDeviceStream_CurrentBytes_Args, CurrentBytes>);
}

}  // namespace torus::tpu
