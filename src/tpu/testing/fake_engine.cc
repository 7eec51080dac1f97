// A tiny PJRT plugin: the seam by which the software TPU is tested without XLA.
//
// A program of the format "hlo" is run on threads of the engine's own (fake_runs.h), where the
// engine is new enough for XLA's FFI. Any other "program" is words such as `name=f outputs=2
// bytes=1024 temp=64 alias=0 donates=0 host`: running it makes that many buffers of that size, at
// once and without computing; `donates` names an argument that it takes over; `host` puts outputs
// in host memory; the word `fail` fails to compile, `unloadable` to be loaded once serialized.
// FakeEngineCompilations() counts. What words make holds no data, so a program may ask for
// terabytes. As older and newer engines do, it refuses structs that are too short, and most entries
// of its table are null.
//
// FAKE_ENGINE_MINOR is the version it says it has.
#include <atomic>
#include <cstring>
#include <sstream>

#include "tpu/pjrt/args.h"
#include "tpu/testing/fake_objects.h"
#include "tpu/testing/fake_runs.h"

namespace fake = torus::tpu::fake;
using fake::Fail;
using fake::Signal;
using fake::ToError;
using torus::pjrt::StructSize;

namespace {

constexpr size_t kLocalHardwareIdSize = 40;  // longer than the header's, as a newer engine's

PJRT_Error* TooShort(const char* name, size_t expected, size_t got) {
  return Fail(PJRT_Error_Code_INVALID_ARGUMENT,
              "Unexpected " + std::string(name) + " size: expected " + std::to_string(expected) +
                  ", got " + std::to_string(got) + ". Check installed software versions.");
}

size_t FloatBytes(const int64_t* dims, size_t num_dims) {
  size_t bytes = sizeof(float);
  for (size_t i = 0; i < num_dims; ++i) bytes *= dims[i];
  return bytes;
}

PJRT_Memory* Place(PJRT_Memory* memory, PJRT_Device* device) {
  return memory != nullptr ? memory : &device->memories[0];
}

void ErrorDestroy(PJRT_Error_Destroy_Args* args) { delete args->error; }

void ErrorMessage(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.c_str();
  args->message_size = args->error->message.size();
}

PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}

PJRT_Error* PluginInitialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }

PJRT_Error* EventDestroy(PJRT_Event_Destroy_Args* args) {
  delete args->event;
  return nullptr;
}

PJRT_Error* EventOnReady(PJRT_Event_OnReady_Args* args) {
  const auto call = [callback = args->callback, argument = args->user_arg](const auto& status) {
    callback(ToError(status), argument);
  };
  if (args->event->signal == nullptr) {
    call(torus::Status());
  } else {
    args->event->signal->OnSet(call);
  }
  return nullptr;
}

PJRT_Error* EventAwait(PJRT_Event_Await_Args* args) {
  const auto& signal = args->event->signal;
  return signal == nullptr ? nullptr : ToError(signal->Await());
}

PJRT_Error* EventCreate(torus::pjrt::EventCreateArgs* args) {
  args->event = new PJRT_Event{std::make_shared<Signal>()};
  return nullptr;
}

PJRT_Error* EventSet(torus::pjrt::EventSetArgs* args) {
  args->event->signal->Set(torus::Status(static_cast<torus::Code>(args->error_code),
                                         {args->error_message, args->error_message_size}));
  return nullptr;
}

PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args) {
  int64_t count = 1;
  for (size_t i = 0; i < args->num_options; ++i) count = args->create_options[i].int64_value;
  auto* client = new PJRT_Client;
  for (int id = 0; id < count; ++id) {
    PJRT_Device& device = client->devices.emplace_back();
    device.description.id = id;
    device.memories[0] = {&device, "device"};
    device.memories[1] = {&device, "pinned_host"};
    client->device_list.push_back(&device);
  }
  args->client = client;
  return nullptr;
}

PJRT_Error* ClientDestroy(PJRT_Client_Destroy_Args* args) {
  fake::AwaitAll(*args->client->runs);
  delete args->client;
  return nullptr;
}

template <typename Args>
PJRT_Error* Say(const char*& text, size_t& size, const char* value, Args*) {
  text = value;
  size = std::string_view(value).size();
  return nullptr;
}

PJRT_Error* PlatformName(PJRT_Client_PlatformName_Args* args) {
  return Say(args->platform_name, args->platform_name_size, "fake", args);
}

PJRT_Error* PlatformVersion(PJRT_Client_PlatformVersion_Args* args) {
  return Say(args->platform_version, args->platform_version_size, "1 (one)", args);
}

PJRT_Error* ClientDevices(PJRT_Client_Devices_Args* args) {
  args->devices = args->client->device_list.data();
  args->num_devices = args->client->device_list.size();
  return nullptr;
}

PJRT_Error* GetDescription(PJRT_Device_GetDescription_Args* args) {
  args->device_description = &args->device->description;
  return nullptr;
}

PJRT_Error* DescriptionId(PJRT_DeviceDescription_Id_Args* args) {
  args->id = args->device_description->id;
  return nullptr;
}

PJRT_Error* LocalHardwareId(PJRT_Device_LocalHardwareId_Args* args) {
  if (StructSize(args) < kLocalHardwareIdSize) {
    return TooShort("PJRT_Device_LocalHardwareId_Args", kLocalHardwareIdSize, StructSize(args));
  }
  args->local_hardware_id = args->device->description.id;
  return nullptr;
}

PJRT_Error* AddressableMemories(PJRT_Device_AddressableMemories_Args* args) {
  args->memories = args->device->memory_list;
  args->num_memories = 2;
  return nullptr;
}

PJRT_Error* MemoryKind(PJRT_Memory_Kind_Args* args) {
  args->kind = args->memory->kind.c_str();
  args->kind_size = args->memory->kind.size();
  return nullptr;
}

std::atomic<int> compilations = 0;

std::map<std::string, std::string> ReadWords(const char* text, size_t size) {
  std::map<std::string, std::string> words;
  std::istringstream code(std::string(text, size));
  for (std::string word; code >> word;) {
    const auto equals = word.find('=');
    words[word.substr(0, equals)] = equals == word.npos ? "1" : word.substr(equals + 1);
  }
  return words;
}

PJRT_Error* Compile(PJRT_Client_Compile_Args* args) {
  ++compilations;
  if (std::string_view(args->program->format, args->program->format_size) == "hlo") {
    return fake::CompileHlo(args);
  }
  auto words = ReadWords(args->program->code, args->program->code_size);
  if (words.contains("fail")) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "the fake cannot compile it");
  }
  args->executable = new PJRT_LoadedExecutable{
      {.words = std::move(words)}, {args->client->device_list[0]}, args->client->runs};
  return nullptr;
}

PJRT_Error* Serialize(PJRT_Executable_Serialize_Args* args) {
  auto* serialized = new PJRT_SerializedExecutable;
  if (args->executable->module != nullptr)
    serialized->bytes = fake::SerializeHlo(*args->executable);
  for (const auto& [word, value] : args->executable->words) {
    if (args->executable->module == nullptr) serialized->bytes += word + "=" + value + " ";
  }
  args->serialized_executable = serialized;
  args->serialized_bytes = serialized->bytes.data();
  args->serialized_bytes_size = serialized->bytes.size();
  args->serialized_executable_deleter = [](PJRT_SerializedExecutable* it) { delete it; };
  return nullptr;
}

PJRT_Error* Load(PJRT_Executable_DeserializeAndLoad_Args* args) {
  if (fake::IsSerializedHlo(*args)) return fake::LoadHlo(args);
  auto words = ReadWords(args->serialized_executable, args->serialized_executable_size);
  if (words.contains("unloadable")) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "the fake cannot load it");
  }
  words["loaded"] = "";  // so that it serializes as something else
  args->loaded_executable =
      new PJRT_LoadedExecutable{{.words = std::move(words), .fingerprint = "loaded"},
                                {args->client->device_list[0]},
                                args->client->runs};
  return nullptr;
}

PJRT_Error* Fingerprint(PJRT_Executable_Fingerprint_Args* args) {
  args->executable_fingerprint = args->executable->fingerprint.data();
  args->executable_fingerprint_size = args->executable->fingerprint.size();
  return nullptr;
}

PJRT_Error* LoadedDestroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

PJRT_Error* GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  args->executable = new PJRT_Executable(args->loaded_executable->executable);
  return nullptr;
}

PJRT_Error* ExecutableDestroy(PJRT_Executable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

PJRT_Error* ExecutableName(PJRT_Executable_Name_Args* args) {
  const std::string& name = args->executable->words["name"];
  args->executable_name = name.c_str();
  args->executable_name_size = name.size();
  return nullptr;
}

PJRT_Error* NumOutputs(PJRT_Executable_NumOutputs_Args* args) {
  const PJRT_Executable& executable = *args->executable;
  args->num_outputs = executable.module != nullptr ? fake::OutputShapes(executable).size()
                                                   : executable.Number("outputs");
  return nullptr;
}

PJRT_Error* MemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  const PJRT_Executable& executable = *args->executable;
  args->output_size_in_bytes = executable.Number("outputs") * executable.Number("bytes");
  args->alias_size_in_bytes = executable.Number("alias");
  args->temp_size_in_bytes = executable.Number("temp");
  return nullptr;
}

PJRT_Error* LoadedDevices(PJRT_LoadedExecutable_AddressableDevices_Args* args) {
  args->addressable_devices = args->executable->devices.data();
  args->num_addressable_devices = args->executable->devices.size();
  return nullptr;
}

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  if (args->options->struct_size < sizeof(PJRT_ExecuteOptions)) {
    return TooShort("PJRT_ExecuteOptions", sizeof(PJRT_ExecuteOptions), args->options->struct_size);
  }
  const PJRT_Executable& executable = args->executable->executable;
  if (executable.module != nullptr) return fake::RunHlo(args);
  PJRT_Memory& memory = args->executable->devices[0]->memories[executable.Number("host")];
  for (int64_t i = 0; i < executable.Number("outputs"); ++i) {
    args->output_lists[0][i] =
        new PJRT_Buffer{&memory, static_cast<size_t>(executable.Number("bytes"))};
  }
  if (executable.words.contains("donates") && args->options->num_non_donatable_input_indices == 0) {
    args->argument_lists[0][executable.Number("donates")]->deleted = true;
  }
  if (args->device_complete_events != nullptr) {
    args->device_complete_events[0] = new PJRT_Event;
  }
  return nullptr;
}

PJRT_Error* FromHost(PJRT_Client_BufferFromHostBuffer_Args* args) {
  args->buffer =
      new PJRT_Buffer{Place(args->memory, args->device), FloatBytes(args->dims, args->num_dims)};
  if (args->data != nullptr && args->type == PJRT_Buffer_Type_F32) {
    args->buffer->contents = fake::Floats(args->data, {args->dims, args->dims + args->num_dims});
  }
  args->done_with_host_buffer = new PJRT_Event;
  return nullptr;
}

PJRT_Error* Uninitialized(PJRT_Client_CreateUninitializedBuffer_Args* args) {
  args->buffer = new PJRT_Buffer{Place(args->memory, args->device),
                                 FloatBytes(args->shape_dims, args->shape_num_dims)};
  return nullptr;
}

PJRT_Error* BufferDestroy(PJRT_Buffer_Destroy_Args* args) {
  delete args->buffer;
  return nullptr;
}

PJRT_Error* BufferDelete(PJRT_Buffer_Delete_Args* args) {
  args->buffer->deleted = true;
  return nullptr;
}

PJRT_Error* IsDeleted(PJRT_Buffer_IsDeleted_Args* args) {
  args->is_deleted = args->buffer->deleted;
  return nullptr;
}

PJRT_Error* OnDeviceSize(PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  args->on_device_size_in_bytes = args->buffer->bytes;
  return nullptr;
}

PJRT_Error* BufferMemory(PJRT_Buffer_Memory_Args* args) {
  args->memory = args->buffer->memory;
  return nullptr;
}

PJRT_Error* ReadyEvent(PJRT_Buffer_ReadyEvent_Args* args) {
  const auto& contents = args->buffer->contents;
  args->event = new PJRT_Event;
  if (contents != nullptr) args->event->signal = {contents, &contents->ready};
  return nullptr;
}

PJRT_Error* ToHost(PJRT_Buffer_ToHostBuffer_Args* args) {
  const auto contents = args->src->contents;
  if (contents == nullptr) return Fail(PJRT_Error_Code_UNIMPLEMENTED, "the buffer holds no data");
  if (args->dst == nullptr) {
    args->dst_size = contents->array.bytes->size();
    return nullptr;
  }
  args->event = new PJRT_Event{std::make_shared<Signal>()};
  contents->ready.OnSet(
      [contents, to = args->dst, signal = args->event->signal](const auto& status) {
        if (status.ok())
          std::memcpy(to, contents->array.bytes->data(), contents->array.bytes->size());
        signal->Set(status);
      });
  return nullptr;
}

PJRT_Error* OptimizedProgram(PJRT_Executable_OptimizedProgram_Args* args) {
  const std::string& code = args->executable->code;
  if (code.empty()) return Fail(PJRT_Error_Code_UNIMPLEMENTED, "words are not optimized");
  const std::string program = fake::WithConfig(code);
  args->program->format = "hlo-with-config";
  args->program->format_size = 15;
  args->program->code_size = program.size();
  if (args->program->code != nullptr) {
    std::memcpy(args->program->code, program.data(), program.size());
  }
  return nullptr;
}

// A topology without devices says nothing, and a program compiled for it is never loaded.

PJRT_Error* TopologyCreate(PJRT_TopologyDescription_Create_Args* args) {
  static PJRT_TopologyDescription topology;
  args->topology = &topology;
  return nullptr;
}

PJRT_Error* CompileAheadOfTime(PJRT_Compile_Args* args) {
  args->executable =
      new PJRT_Executable{.words = ReadWords(args->program->code, args->program->code_size)};
  return nullptr;
}

PJRT_Error* ContextCreate(PJRT_ExecuteContext_Create_Args* args) {
  args->context = new PJRT_ExecuteContext;
  return nullptr;
}

PJRT_Error* ContextDestroy(PJRT_ExecuteContext_Destroy_Args* args) {
  delete args->context;
  return nullptr;
}

PJRT_Error* CopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  args->dst_buffer = new PJRT_Buffer{&args->dst_device->memories[0], args->buffer->bytes};
  return nullptr;
}

PJRT_Error* CopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  args->dst_buffer = new PJRT_Buffer{args->dst_memory, args->buffer->bytes};
  return nullptr;
}

PJRT_Error* CreateTransfer(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args* args) {
  auto* transfer = new PJRT_AsyncHostToDeviceTransferManager{args->memory, {}};
  for (size_t i = 0; i < args->num_shape_specs; ++i) {
    transfer->bytes.push_back(FloatBytes(args->shape_specs[i].dims, args->shape_specs[i].num_dims));
  }
  args->transfer_manager = transfer;
  return nullptr;
}

PJRT_Error* Retrieve(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args* args) {
  const auto& transfer = *args->transfer_manager;
  args->buffer_out = new PJRT_Buffer{transfer.memory, transfer.bytes[args->buffer_index]};
  return nullptr;
}

PJRT_Error* DestroyTransfer(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* args) {
  delete args->transfer_manager;
  return nullptr;
}

PJRT_Api MakeApi() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, nullptr, PJRT_API_MAJOR, FAKE_ENGINE_MINOR};
  api.PJRT_Error_Destroy = ErrorDestroy;
  api.PJRT_Error_Message = ErrorMessage;
  api.PJRT_Error_GetCode = ErrorGetCode;
  api.PJRT_Plugin_Initialize = PluginInitialize;
  api.PJRT_Event_Destroy = EventDestroy;
  api.PJRT_Event_OnReady = EventOnReady;
  api.PJRT_Client_Create = ClientCreate;
  api.PJRT_Client_Destroy = ClientDestroy;
  api.PJRT_Client_PlatformName = PlatformName;
  api.PJRT_Client_PlatformVersion = PlatformVersion;
  api.PJRT_Client_Devices = ClientDevices;
  api.PJRT_Client_Compile = Compile;
  api.PJRT_Client_BufferFromHostBuffer = FromHost;
  api.PJRT_Client_CreateUninitializedBuffer = Uninitialized;
  api.PJRT_Client_CreateBuffersForAsyncHostToDevice = CreateTransfer;
  api.PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer = Retrieve;
  api.PJRT_AsyncHostToDeviceTransferManager_Destroy = DestroyTransfer;
  api.PJRT_DeviceDescription_Id = DescriptionId;
  api.PJRT_Device_GetDescription = GetDescription;
  api.PJRT_Device_LocalHardwareId = LocalHardwareId;
  api.PJRT_Device_AddressableMemories = AddressableMemories;
  api.PJRT_Memory_Kind = MemoryKind;
  api.PJRT_Executable_Destroy = ExecutableDestroy;
  api.PJRT_Executable_Name = ExecutableName;
  api.PJRT_Executable_NumOutputs = NumOutputs;
  api.PJRT_Executable_GetCompiledMemoryStats = MemoryStats;
  api.PJRT_Executable_Serialize = Serialize;
  api.PJRT_Executable_DeserializeAndLoad = Load;
  api.PJRT_Executable_Fingerprint = Fingerprint;
  api.PJRT_LoadedExecutable_Destroy = LoadedDestroy;
  api.PJRT_LoadedExecutable_GetExecutable = GetExecutable;
  api.PJRT_LoadedExecutable_AddressableDevices = LoadedDevices;
  api.PJRT_LoadedExecutable_Execute = Execute;
  api.PJRT_Buffer_Destroy = BufferDestroy;
  api.PJRT_Buffer_Delete = BufferDelete;
  api.PJRT_Buffer_IsDeleted = IsDeleted;
  api.PJRT_Buffer_OnDeviceSizeInBytes = OnDeviceSize;
  api.PJRT_Buffer_Memory = BufferMemory;
  api.PJRT_Buffer_ReadyEvent = ReadyEvent;
  api.PJRT_Buffer_CopyToDevice = CopyToDevice;
  api.PJRT_Buffer_CopyToMemory = CopyToMemory;
  return api;
}

// As an engine has it that has XLA's FFI: a longer table, and extensions.
torus::pjrt::Table MakeNewApi() {
  PJRT_Api api = MakeApi();
  api.extension_start = fake::Extensions();
  api.PJRT_Event_Await = EventAwait;
  api.PJRT_Buffer_ToHostBuffer = ToHost;
  api.PJRT_Executable_OptimizedProgram = OptimizedProgram;
  api.PJRT_TopologyDescription_Create = TopologyCreate;
  api.PJRT_Compile = CompileAheadOfTime;
  api.PJRT_ExecuteContext_Create = ContextCreate;
  api.PJRT_ExecuteContext_Destroy = ContextDestroy;
  torus::pjrt::Table table{};
  std::memcpy(&table, &api, PJRT_Api_STRUCT_SIZE);
  table.struct_size = sizeof(table);
  const auto set = [&table](size_t slot, auto* function) {
    table.functions[slot] = reinterpret_cast<torus::pjrt::Function>(function);
  };
  set(torus::pjrt::kEvent_Create, EventCreate);
  set(torus::pjrt::kEvent_Set, EventSet);
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int FakeEngineCompilations() {
  return compilations;
}

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = MakeApi();
  static const torus::pjrt::Table new_api = MakeNewApi();
  return FAKE_ENGINE_MINOR >= fake::kOldestMinorWithFfi ? new_api.api() : &api;
}
