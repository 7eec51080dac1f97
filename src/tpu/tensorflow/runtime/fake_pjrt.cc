#include "tpu/tensorflow/runtime/fake_pjrt.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <thread>
#include <utility>

#include "tpu/pjrt/args.h"
#include "tpu/tensorflow/runtime/tpu.h"

namespace {

// Whose waiters are called once it is ready; it lives as long as anyone sets it.
struct Readiness {
  std::mutex mutex;
  bool ready = false;
  torus::Status status;
  std::vector<std::function<void()>> waiters;
};

}  // namespace

struct PJRT_Error {
  torus::Status status;
};
struct PJRT_Event {
  std::shared_ptr<Readiness> readiness = std::make_shared<Readiness>();
};
struct PJRT_DeviceDescription {
  int id = 0;
  std::array<int64_t, 3> coords = {};
  std::array<PJRT_NamedValue, 3> attributes = {};
};
struct PJRT_Device {
  PJRT_DeviceDescription* description;
};
struct PJRT_Client {};
struct PJRT_TopologyDescription {};
struct PJRT_LoadedExecutable {
  std::vector<PJRT_Device*> devices;  // none: any one
};
struct PJRT_Buffer {
  std::vector<float> values;
  std::vector<int64_t> dimensions;
  bool given_up = false;
};

struct PJRT_CopyToDeviceStream {
  std::vector<float> values;
  std::promise<std::vector<float>> received;
};

namespace torus::tensorflow::fake_pjrt {
namespace {

constexpr int kSliceCores = 16;

// A launch, on all its devices.
struct Launch {
  std::vector<int> devices;
  std::vector<std::shared_ptr<Readiness>> ends;
  Status status;
};

struct World {
  std::array<PJRT_DeviceDescription, kSliceCores> descriptions;
  std::vector<PJRT_DeviceDescription*> description_list;  // the last first
  std::array<PJRT_Device, kCores> devices;
  std::vector<PJRT_Device*> device_list;
  PJRT_Client client;
  PJRT_TopologyDescription topology;

  std::mutex mutex;  // guards what follows
  std::map<int, std::deque<std::shared_ptr<Launch>>> queues;
  bool held = false;
  Status refuse_next, fail_next;
  Launched launched;
  std::atomic<int> buffers = 0;

  World() {
    for (int id = 0; id < kSliceCores; ++id) {
      auto& description = descriptions[id];
      description.id = id;
      description.coords = {id / 2 % 4, id / 8, 0};
      description.attributes = {
          pjrt::NamedInts("coords", description.coords.data(), description.coords.size()),
          pjrt::NamedInt("core_on_chip", id % 2), pjrt::NamedString("accelerator_type", "v2-16")};
      description_list.insert(description_list.begin(), &description);
    }
    for (int core = 0; core < kCores; ++core) {
      devices[core].description = &descriptions[kFirstId + core];
      device_list.push_back(&devices[core]);
    }
  }
};
World& TheWorld() {
  static World& world = *new World;
  return world;
}

PJRT_Error* ToError(Status status) {
  return status.ok() ? nullptr : new PJRT_Error{std::move(status)};
}

void SetReady(Readiness& readiness, Status status) {
  std::vector<std::function<void()>> waiters;
  {
    const std::lock_guard lock(readiness.mutex);
    readiness.ready = true;
    readiness.status = std::move(status);
    waiters.swap(readiness.waiters);
  }
  for (const auto& waiter : waiters) waiter();
}

PJRT_Buffer* NewBuffer(std::vector<float> values, std::vector<int64_t> dimensions) {
  ++TheWorld().buffers;
  return new PJRT_Buffer{std::move(values), std::move(dimensions)};
}

// Ends every launch that is at the head on all its devices.
void Drive() {
  auto& world = TheWorld();
  std::unique_lock lock(world.mutex);
  const auto at_head = [&](const std::shared_ptr<Launch>& launch) {
    return std::ranges::all_of(launch->devices, [&](int device) {
      const auto& queue = world.queues[device];
      return !queue.empty() && queue.front() == launch;
    });
  };
  const auto next = [&]() -> std::shared_ptr<Launch> {
    if (world.held) return nullptr;
    for (const auto& [device, queue] : world.queues)
      if (!queue.empty() && at_head(queue.front())) return queue.front();
    return nullptr;
  };
  while (const auto launch = next()) {
    for (const int device : launch->devices) world.queues[device].pop_front();
    lock.unlock();
    for (const auto& end : launch->ends) SetReady(*end, launch->status);
    lock.lock();
  }
}

// ---- Errors and events

void ErrorDestroy(PJRT_Error_Destroy_Args* args) { delete args->error; }

void ErrorMessage(PJRT_Error_Message_Args* args) {
  args->message = args->error->status.message().c_str();
  args->message_size = args->error->status.message().size();
}

PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) {
  args->code = static_cast<PJRT_Error_Code>(args->error->status.code());
  return nullptr;
}

PJRT_Error* EventDestroy(PJRT_Event_Destroy_Args* args) {
  delete args->event;
  return nullptr;
}

PJRT_Error* EventOnReady(PJRT_Event_OnReady_Args* args) {
  const auto readiness = args->event->readiness;
  const auto call = [callback = args->callback, user = args->user_arg, &of = *readiness] {
    callback(ToError(of.status), user);
  };
  {
    const std::lock_guard lock(readiness->mutex);
    if (!readiness->ready) {
      readiness->waiters.emplace_back(call);
      return nullptr;
    }
  }
  call();
  return nullptr;
}

PJRT_Event* ReadyEvent() {
  auto* event = new PJRT_Event;
  event->readiness->ready = true;
  return event;
}

// ---- Devices

PJRT_Error* PluginInitialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }

PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args) {
  args->client = &TheWorld().client;
  return nullptr;
}

PJRT_Error* ClientDevices(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = TheWorld().device_list.data();
  args->num_addressable_devices = TheWorld().device_list.size();
  return nullptr;
}

PJRT_Error* GetDescription(PJRT_Device_GetDescription_Args* args) {
  args->device_description = args->device->description;
  return nullptr;
}

PJRT_Error* DescriptionId(PJRT_DeviceDescription_Id_Args* args) {
  args->id = args->device_description->id;
  return nullptr;
}

PJRT_Error* DescriptionKind(PJRT_DeviceDescription_Kind_Args* args) {
  static constexpr std::string_view kKind = "TPU v2";
  args->device_kind = kKind.data();
  args->device_kind_size = kKind.size();
  return nullptr;
}

PJRT_Error* DescriptionAttributes(PJRT_DeviceDescription_Attributes_Args* args) {
  args->attributes = args->device_description->attributes.data();
  args->num_attributes = args->device_description->attributes.size();
  return nullptr;
}

PJRT_Error* TopologyCreate(PJRT_TopologyDescription_Create_Args* args) {
  args->topology = &TheWorld().topology;
  return nullptr;
}

PJRT_Error* TopologyDescriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args* args) {
  args->descriptions = TheWorld().description_list.data();
  args->num_descriptions = TheWorld().description_list.size();
  return nullptr;
}

// ---- Buffers

PJRT_Error* FromHost(PJRT_Client_BufferFromHostBuffer_Args* args) {
  size_t count = 1;
  for (size_t i = 0; i < args->num_dims; ++i) count *= args->dims[i];
  const auto* data = static_cast<const float*>(args->data);
  args->buffer =
      NewBuffer(std::vector<float>(data, data + count), {args->dims, args->dims + args->num_dims});
  args->done_with_host_buffer = ReadyEvent();
  return nullptr;
}

PJRT_Error* ToHost(PJRT_Buffer_ToHostBuffer_Args* args) {
  const auto& buffer = *args->src;
  if (buffer.given_up) return ToError(FailedPrecondition("the buffer was given up"));
  if (args->dst_size < buffer.values.size() * sizeof(float))
    return ToError(InvalidArgument("{} bytes are too few", args->dst_size));
  std::ranges::copy(buffer.values, static_cast<float*>(args->dst));
  args->event = ReadyEvent();
  return nullptr;
}

PJRT_Error* CopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  args->dst_buffer = NewBuffer(args->buffer->values, args->buffer->dimensions);
  return nullptr;
}

PJRT_Error* Dimensions(PJRT_Buffer_Dimensions_Args* args) {
  args->dims = args->buffer->dimensions.data();
  args->num_dims = args->buffer->dimensions.size();
  return nullptr;
}

PJRT_Error* UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args* args) {
  args->unpadded_dims = args->buffer->dimensions.data();
  args->num_dims = args->buffer->dimensions.size();
  return nullptr;
}

PJRT_Error* BufferDestroy(PJRT_Buffer_Destroy_Args* args) {
  --TheWorld().buffers;
  delete args->buffer;
  return nullptr;
}

// ---- Programs

// The devices of a serialized xla.CompileOptionsProto, replica by replica, the last first: an
// executable's order is its own.
std::vector<PJRT_Device*> AssignedDevices(std::string_view options) {
  std::vector<PJRT_Device*> devices;
  protozero::pbf_reader compile(options.data(), options.size());
  while (compile.next(3)) {
    auto build = compile.get_message();
    while (build.next(9)) {
      auto assignment = build.get_message();
      while (assignment.next(3)) {
        auto computation = assignment.get_message();
        while (computation.next(1))
          for (const auto id : computation.get_packed_int64())
            devices.insert(devices.begin(), &TheWorld().devices[id - kFirstId]);
      }
    }
  }
  return devices;
}

PJRT_Error* Compile(PJRT_Client_Compile_Args* args) {
  const std::string_view code(args->program->code, args->program->code_size);
  if (code.contains("out-of-memory")) return ToError(ResourceExhausted("it needs too much HBM"));
  args->executable = new PJRT_LoadedExecutable{
      AssignedDevices({args->compile_options, args->compile_options_size})};
  return nullptr;
}

PJRT_Error* LoadedDevices(PJRT_LoadedExecutable_AddressableDevices_Args* args) {
  args->addressable_devices = args->executable->devices.data();
  args->num_addressable_devices = args->executable->devices.size();
  return nullptr;
}

PJRT_Error* LoadedDestroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

// Notes the launch; the status of refusing it.
Status Begin(const PJRT_LoadedExecutable_Execute_Args& args, Launch& launch) {
  auto& world = TheWorld();
  const auto& options = *args.options;
  const std::lock_guard lock(world.mutex);
  if (!world.refuse_next.ok()) return std::exchange(world.refuse_next, Status());
  launch.status = std::exchange(world.fail_next, Status());
  ++world.launched.launches;
  world.launched.devices = args.num_devices;
  world.launched.kept.assign(
      options.non_donatable_input_indices,
      options.non_donatable_input_indices + options.num_non_donatable_input_indices);
  return Status();
}

void Compute(const PJRT_LoadedExecutable_Execute_Args& args) {
  const std::vector<int64_t> kept(
      args.options->non_donatable_input_indices,
      args.options->non_donatable_input_indices + args.options->num_non_donatable_input_indices);
  for (size_t i = 0; i < args.num_args; ++i) {
    auto values = args.argument_lists[0][i]->values;
    for (size_t device = 1; device < args.num_devices; ++device)
      std::ranges::transform(values, args.argument_lists[device][i]->values, values.begin(),
                             std::plus());
    for (auto& value : values) value += 1;
    for (size_t device = 0; device < args.num_devices; ++device) {
      auto& input = *args.argument_lists[device][i];
      args.output_lists[device][i] = NewBuffer(values, input.dimensions);
      if (std::ranges::find(kept, static_cast<int64_t>(i)) == kept.end()) input.given_up = true;
    }
  }
}

// ---- Transfers with the host

PJRT_Error* StreamTotalBytes(PJRT_CopyToDeviceStream_TotalBytes_Args* args) {
  args->total_bytes = sizeof(float);
  return nullptr;
}

PJRT_Error* StreamAddChunk(PJRT_CopyToDeviceStream_AddChunk_Args* args) {
  const auto& chunk = *args->chunk;
  const auto* values = static_cast<const float*>(chunk.data);
  args->stream->values.assign(values, values + chunk.size / sizeof(float));
  chunk.deleter(chunk.data, chunk.deleter_arg);
  args->transfer_complete = ReadyEvent();
  return nullptr;
}

PJRT_Error* StreamDestroy(PJRT_CopyToDeviceStream_Destroy_Args* args) {
  args->stream->received.set_value(std::move(args->stream->values));
  delete args->stream;
  return nullptr;
}

PJRT_Error* NewCallbackError(PJRT_Error_Code code, const char* message, size_t size) {
  return ToError(Status(static_cast<Code>(code), std::string(message, size)));
}

void Transfer(const PJRT_LoadedExecutable_Execute_Args& args) {
  const auto& options = *args.options;
  PJRT_CallbackError make_error = NewCallbackError;
  for (size_t device = 0; device < args.num_devices; ++device) {
    for (size_t i = 0; i < options.num_send_ops; ++i) {
      const auto& send = options.send_callbacks[device][i];
      PJRT_Chunk chunk{args.argument_lists[device][0]->values.data(), sizeof(float),
                       [](void*, void*) {}, nullptr};
      delete send.send_callback(&chunk, &make_error, chunk.size, true, send.user_arg);
    }
    for (size_t i = 0; i < options.num_recv_ops; ++i) {
      const auto& receive = options.recv_callbacks[device][i];
      auto [stream, received] = NewReceive();
      receive.recv_callback(stream, receive.user_arg);
      received.wait();
    }
  }
}

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  auto& world = TheWorld();
  auto devices = args->executable->devices;
  if (devices.empty()) devices = {args->execute_device};
  if (devices.size() != args->num_devices || devices[0] == nullptr)
    return ToError(
        InvalidArgument("{} devices run a program of {}", args->num_devices, devices.size()));
  const auto launch = std::make_shared<Launch>();
  if (auto status = Begin(*args, *launch); !status.ok()) return ToError(std::move(status));
  Transfer(*args);
  Compute(*args);
  for (size_t i = 0; i < devices.size(); ++i) {
    launch->devices.push_back(static_cast<int>(devices[i] - world.devices.data()));
    args->device_complete_events[i] = new PJRT_Event;
    launch->ends.push_back(args->device_complete_events[i]->readiness);
  }
  for (const int device : launch->devices) {  // so that two launches at a time would mingle
    {
      const std::lock_guard lock(world.mutex);
      world.queues[device].push_back(launch);
    }
    if (devices.size() > 1) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  Drive();
  return nullptr;
}

PJRT_Api MakeApi() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.PJRT_Error_Destroy = ErrorDestroy;
  api.PJRT_Error_Message = ErrorMessage;
  api.PJRT_Error_GetCode = ErrorGetCode;
  api.PJRT_Plugin_Initialize = PluginInitialize;
  api.PJRT_Event_Destroy = EventDestroy;
  api.PJRT_Event_OnReady = EventOnReady;
  api.PJRT_Client_Create = ClientCreate;
  api.PJRT_Client_AddressableDevices = ClientDevices;
  api.PJRT_Client_Compile = Compile;
  api.PJRT_Client_BufferFromHostBuffer = FromHost;
  api.PJRT_Device_GetDescription = GetDescription;
  api.PJRT_DeviceDescription_Id = DescriptionId;
  api.PJRT_DeviceDescription_Kind = DescriptionKind;
  api.PJRT_DeviceDescription_Attributes = DescriptionAttributes;
  api.PJRT_TopologyDescription_Create = TopologyCreate;
  api.PJRT_TopologyDescription_GetDeviceDescriptions = TopologyDescriptions;
  api.PJRT_LoadedExecutable_Destroy = LoadedDestroy;
  api.PJRT_LoadedExecutable_AddressableDevices = LoadedDevices;
  api.PJRT_LoadedExecutable_Execute = Execute;
  api.PJRT_CopyToDeviceStream_TotalBytes = StreamTotalBytes;
  api.PJRT_CopyToDeviceStream_AddChunk = StreamAddChunk;
  api.PJRT_CopyToDeviceStream_Destroy = StreamDestroy;
  api.PJRT_Buffer_Destroy = BufferDestroy;
  api.PJRT_Buffer_Dimensions = Dimensions;
  api.PJRT_Buffer_UnpaddedDimensions = UnpaddedDimensions;
  api.PJRT_Buffer_ToHostBuffer = ToHost;
  api.PJRT_Buffer_CopyToDevice = CopyToDevice;
  return api;
}

}  // namespace

void Install() {
  static const PJRT_Api& api = [] -> const PJRT_Api& {
    const PJRT_Api& made = *new PJRT_Api(MakeApi());
    Tpu::SetApi(&made);
    return made;
  }();
  static_cast<void>(api);
}

void Hold() {
  const std::lock_guard lock(TheWorld().mutex);
  TheWorld().held = true;
}

void Release() {
  {
    const std::lock_guard lock(TheWorld().mutex);
    TheWorld().held = false;
  }
  Drive();
}

void RefuseNext(Status status) {
  const std::lock_guard lock(TheWorld().mutex);
  TheWorld().refuse_next = std::move(status);
}

void FailNext(Status status) {
  const std::lock_guard lock(TheWorld().mutex);
  TheWorld().fail_next = std::move(status);
}

Launched launched() {
  const std::lock_guard lock(TheWorld().mutex);
  return TheWorld().launched;
}

std::pair<PJRT_CopyToDeviceStream*, Received> NewReceive() {
  auto* stream = new PJRT_CopyToDeviceStream;
  return {stream, stream->received.get_future()};
}

int LiveBuffers() { return TheWorld().buffers; }

}  // namespace torus::tensorflow::fake_pjrt
