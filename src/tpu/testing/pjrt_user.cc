// Calls a PJRT plugin as a framework does.
#include "tpu/testing/pjrt_user.h"

#include <utility>

#include "tpu/pjrt/args.h"

namespace torus::tpu {
namespace {

using pjrt::MakeArgs;

// CompileOptionsProto{executable_build_options{num_replicas: 1 num_partitions: 1}}.
constexpr std::string_view kOneReplica("\x1a\x04\x20\x01\x28\x01", 6);

}  // namespace

Status PjrtUser::Take(const PJRT_Api* api, PJRT_Error* error) {
  if (error == nullptr) return Status();
  auto message = MakeArgs<PJRT_Error_Message_Args>();
  auto code = MakeArgs<PJRT_Error_GetCode_Args>();
  auto destroy = MakeArgs<PJRT_Error_Destroy_Args>();
  message.error = code.error = destroy.error = error;
  api->PJRT_Error_Message(&message);
  api->PJRT_Error_GetCode(&code);
  Status status(static_cast<Code>(code.code), std::string(message.message, message.message_size));
  api->PJRT_Error_Destroy(&destroy);
  return status;
}

Result<PjrtUser> PjrtUser::Make(const PJRT_Api* api, int64_t device_count,
                                std::string_view framework) {
  auto initialize = MakeArgs<PJRT_Plugin_Initialize_Args>();
  TORUS_RETURN_IF_ERROR(Take(api, api->PJRT_Plugin_Initialize(&initialize)));
  std::vector<PJRT_NamedValue> options;
  if (device_count > 0) options.push_back(pjrt::NamedInt("cpu_device_count", device_count));
  if (!framework.empty()) options.push_back(pjrt::NamedString("ml_framework_name", framework));
  auto create = MakeArgs<PJRT_Client_Create_Args>();
  create.create_options = options.data();
  create.num_options = options.size();
  TORUS_RETURN_IF_ERROR(Take(api, api->PJRT_Client_Create(&create)));
  PjrtUser user(api, create.client);
  auto devices = MakeArgs<PJRT_Client_Devices_Args>();
  devices.client = create.client;
  TORUS_RETURN_IF_ERROR(Take(api, api->PJRT_Client_Devices(&devices)));
  user.devices_.assign(devices.devices, devices.devices + devices.num_devices);
  return user;
}

PjrtUser::PjrtUser(PjrtUser&& other) noexcept
    : api_(other.api_),
      client_(std::exchange(other.client_, nullptr)),
      devices_(std::move(other.devices_)) {}

PjrtUser::~PjrtUser() {
  if (client_ == nullptr) return;
  auto destroy = MakeArgs<PJRT_Client_Destroy_Args>();
  destroy.client = client_;
  Take(api_->PJRT_Client_Destroy(&destroy)).ok();
}

PJRT_DeviceDescription* PjrtUser::Description(int device) const {
  auto args = MakeArgs<PJRT_Device_GetDescription_Args>();
  args.device = devices_[device];
  Take(api_->PJRT_Device_GetDescription(&args)).ok();
  return args.device_description;
}

Result<PJRT_LoadedExecutable*> PjrtUser::Compile(std::string_view code, std::string_view options,
                                                 std::string_view format) const {
  auto program = MakeArgs<PJRT_Program>();
  program.code = const_cast<char*>(code.data());
  program.code_size = code.size();
  program.format = format.data();
  program.format_size = format.size();
  if (options.empty()) options = kOneReplica;
  auto args = MakeArgs<PJRT_Client_Compile_Args>();
  args.client = client_;
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  TORUS_RETURN_IF_ERROR(Take(api_->PJRT_Client_Compile(&args)));
  return args.executable;
}

Result<PJRT_Buffer*> PjrtUser::FromHost(const std::vector<float>& values, int device) const {
  const auto size = static_cast<int64_t>(values.size());
  auto args = MakeArgs<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client_;
  args.data = values.data();
  args.type = PJRT_Buffer_Type_F32;
  args.dims = &size;
  args.num_dims = 1;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = devices_[device];
  TORUS_RETURN_IF_ERROR(Take(api_->PJRT_Client_BufferFromHostBuffer(&args)));
  auto destroy = MakeArgs<PJRT_Event_Destroy_Args>();
  destroy.event = args.done_with_host_buffer;
  TORUS_RETURN_IF_ERROR(Take(api_->PJRT_Event_Destroy(&destroy)));
  return args.buffer;
}

Result<PJRT_Buffer*> PjrtUser::Uninitialized(int64_t floats, int device) const {
  auto args = MakeArgs<PJRT_Client_CreateUninitializedBuffer_Args>();
  args.client = client_;
  args.shape_dims = &floats;
  args.shape_num_dims = 1;
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.device = devices_[device];
  TORUS_RETURN_IF_ERROR(Take(api_->PJRT_Client_CreateUninitializedBuffer(&args)));
  return args.buffer;
}

Result<std::vector<float>> PjrtUser::ToHost(PJRT_Buffer* buffer) const {
  auto args = MakeArgs<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = buffer;
  TORUS_RETURN_IF_ERROR(Take(api_->PJRT_Buffer_ToHostBuffer(&args)));
  std::vector<float> values(args.dst_size / sizeof(float));
  auto await = MakeArgs<PJRT_Event_Await_Args>();
  auto destroy = MakeArgs<PJRT_Event_Destroy_Args>();
  if (values.empty()) {  // a copy to null asks for the size again
    auto ready = MakeArgs<PJRT_Buffer_ReadyEvent_Args>();
    ready.buffer = buffer;
    TORUS_RETURN_IF_ERROR(Take(api_->PJRT_Buffer_ReadyEvent(&ready)));
    await.event = destroy.event = ready.event;
  } else {
    args.dst = values.data();
    TORUS_RETURN_IF_ERROR(Take(api_->PJRT_Buffer_ToHostBuffer(&args)));
    await.event = destroy.event = args.event;
  }
  const Status copied = Take(api_->PJRT_Event_Await(&await));
  TORUS_RETURN_IF_ERROR(Take(api_->PJRT_Event_Destroy(&destroy)));
  if (!copied.ok()) return Error(copied);
  return values;
}

Result<std::vector<PJRT_Buffer*>> PjrtUser::RunOn(PJRT_Device* device,
                                                  PJRT_LoadedExecutable* executable,
                                                  std::vector<PJRT_Buffer*> arguments,
                                                  size_t outputs, size_t options_size) const {
  auto options = MakeArgs<PJRT_ExecuteOptions>();
  options.struct_size = options_size;
  PJRT_Buffer* const* const argument_list = arguments.data();
  std::vector<PJRT_Buffer*> results(outputs);
  PJRT_Buffer** const output_list = results.data();
  auto args = MakeArgs<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = executable;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &output_list;
  args.execute_device = device;
  TORUS_RETURN_IF_ERROR(Take(api_->PJRT_LoadedExecutable_Execute(&args)));
  return results;
}

Result<PJRT_Device_MemoryStats_Args> PjrtUser::MemoryStats(int device) const {
  auto args = MakeArgs<PJRT_Device_MemoryStats_Args>();
  args.device = devices_[device];
  TORUS_RETURN_IF_ERROR(Take(api_->PJRT_Device_MemoryStats(&args)));
  return args;
}

Status PjrtUser::Destroy(PJRT_Buffer* buffer) const {
  auto args = MakeArgs<PJRT_Buffer_Destroy_Args>();
  args.buffer = buffer;
  return Take(api_->PJRT_Buffer_Destroy(&args));
}

Status PjrtUser::Destroy(PJRT_LoadedExecutable* executable) const {
  auto args = MakeArgs<PJRT_LoadedExecutable_Destroy_Args>();
  args.executable = executable;
  return Take(api_->PJRT_LoadedExecutable_Destroy(&args));
}

}  // namespace torus::tpu
