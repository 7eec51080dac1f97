// Every function of the PJRT C API: a good call, structs of older and newer frameworks, structs too
// short to be read, and objects freed in each order that PJRT allows. Nothing crashes, nothing is
// written behind a struct's end, no entry is null. And many rounds, which leave nothing behind;
// TORUS_SOAK=1 makes them 10,000.
//
// Run thrice (CMakeLists.txt): on the bare engine, which shows that the good calls are good; on
// libtpu.so; and on libtpu.so over the fake engine, which sanitizers can look into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "tpu/pjrt/engine.h"
#include "tpu/testing/pjrt_user.h"

namespace torus::tpu {
namespace {

using pjrt::MakeArgs;
using ::testing::AnyOf;
using ::testing::HasSubstr;

enum class Plugin { kEngine, kLibtpu, kLibtpuOnFake };

Plugin ThePlugin() {
  const char* name = std::getenv("TORUS_API_TEST");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view plugin = name == nullptr ? "libtpu" : name;
  if (plugin == "engine") return Plugin::kEngine;
  return plugin == "fake" ? Plugin::kLibtpuOnFake : Plugin::kLibtpu;
}

const PJRT_Api* OpenPlugin() {
  setenv("TORUS_PROGRAM_CACHE", "off", 0);
  if (ThePlugin() == Plugin::kLibtpuOnFake) setenv("TORUS_ENGINE", FAKE_ENGINE, 1);
  const auto api = pjrt::Engine::Open(ThePlugin() == Plugin::kEngine ? ENGINE : LIBTPU);
  if (!api) ADD_FAILURE() << api.error().ToString();
  return api ? *api : nullptr;
}

constexpr char kMlir[] = R"(
module @plus_one {
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<3xf32>
    %sum = stablehlo.add %x, %one : tensor<3xf32>
    return %sum : tensor<3xf32>
  }
})";
constexpr std::string_view kOneReplica("\x1a\x04\x20\x01\x28\x01", 6);

// A struct of its own size at the end of a page, behind which there is nothing to read or write.
class Edge {
 public:
  explicit Edge(size_t size) : size_(size), page_(sysconf(_SC_PAGESIZE)) {
    base_ = static_cast<char*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page_, page_, PROT_NONE);
  }
  Edge(const Edge&) = delete;
  ~Edge() { munmap(base_, 2 * page_); }
  char* at() const { return base_ + page_ - (size_ + 7) / 8 * 8; }

 private:
  size_t size_, page_;
  char* base_;
};

// One client and what good calls need of it. What is made here lives until the process ends, which
// is after one test: what is freed, and in which order, is the tests' subject.
class World {
 public:
  static World& Get() {
    static World& world = *new World;
    return world;
  }

  Status last;  // of Do
  const PJRT_Api* api = OpenPlugin();
  PjrtUser user = *PjrtUser::Make(api);
  PJRT_Client* client = user.client();
  PJRT_Device* device = user.devices()[0];
  PJRT_DeviceDescription* description = user.Description(0);
  std::string code = ThePlugin() == Plugin::kLibtpuOnFake ? "name=f outputs=1 bytes=12" : kMlir;
  PJRT_Program program = [this] {
    auto made = MakeArgs<PJRT_Program>();
    made.code = code.data();
    made.code_size = code.size();
    made.format = "mlir";
    made.format_size = 4;
    return made;
  }();
  PJRT_LoadedExecutable* loaded = NewLoaded();
  PJRT_Executable* executable = NewExecutable();
  PJRT_Memory* memory = Memory();
  PJRT_Buffer* buffer = NewBuffer();
  PJRT_ExecuteOptions execute = MakeArgs<PJRT_ExecuteOptions>();
  PJRT_Buffer* const* arguments = &buffer;
  PJRT_Buffer* output = nullptr;
  PJRT_Buffer** outputs = &output;
  int64_t three = 3;
  float values[3] = {1, 2, 3};
  PJRT_ShapeSpec shape = [this] {
    auto made = MakeArgs<PJRT_ShapeSpec>();
    made.dims = &three;
    made.num_dims = 1;
    made.element_type = PJRT_Buffer_Type_F32;
    return made;
  }();
  int assignment[4] = {};
  PJRT_NamedValue devices = pjrt::NamedInt("cpu_device_count", 2);

  Status Call(size_t slot, void* args) {
    const pjrt::Function function = reinterpret_cast<const pjrt::Table*>(api)->functions[slot];
    // Only the engine has gaps: HasEveryFunction.
    if (function == nullptr) return Unimplemented("{}", pjrt::FunctionName(slot));
    PJRT_Error* error = function(args);
    const bool returns_nothing = slot == pjrt::kError_Destroy || slot == pjrt::kError_Message;
    return returns_nothing ? Status() : PjrtUser::Take(api, error);
  }
  template <typename Args>
  Args Do(size_t slot, Args args) {
    last = Call(slot, &args);
    return args;
  }

  PJRT_LoadedExecutable* NewLoaded() { return *user.Compile(code); }
  PJRT_Buffer* NewBuffer() { return *user.FromHost({1, 2, 3}); }
  PJRT_Executable* NewExecutable() {
    auto args = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
    args.loaded_executable = loaded;
    return Do(pjrt::kLoadedExecutable_GetExecutable, args).executable;
  }
  PJRT_Event* NewEvent() {
    auto args = MakeArgs<PJRT_Buffer_ReadyEvent_Args>();
    args.buffer = buffer;
    return Do(pjrt::kBuffer_ReadyEvent, args).event;
  }
  PJRT_Memory* Memory() {
    auto args = MakeArgs<PJRT_Device_AddressableMemories_Args>();
    args.device = device;
    return Do(pjrt::kDevice_AddressableMemories, args).memories[0];
  }
  PJRT_TopologyDescription* Topology() {
    auto args = MakeArgs<PJRT_Client_TopologyDescription_Args>();
    args.client = client;
    return Do(pjrt::kClient_TopologyDescription, args).topology;
  }
  PJRT_AsyncHostToDeviceTransferManager* NewTransfer() {
    auto args = MakeArgs<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>();
    args.client = client;
    args.shape_specs = &shape;
    args.num_shape_specs = 1;
    args.memory = memory;
    return Do(pjrt::kClient_CreateBuffersForAsyncHostToDevice, args).transfer_manager;
  }
  // An error, as the plugin makes them: the device has no such number.
  PJRT_Error* NewError() {
    auto args = MakeArgs<PJRT_Client_Compile_Args>();
    static auto bad = program;
    bad.code_size = 1;
    bad.code = const_cast<char*>("{");
    static std::string word = "fail";
    if (ThePlugin() == Plugin::kLibtpuOnFake) bad.code = word.data(), bad.code_size = word.size();
    args.client = client;
    args.program = &bad;
    args.compile_options = kOneReplica.data();
    args.compile_options_size = kOneReplica.size();
    return api->PJRT_Client_Compile(&args);
  }
  std::string Serialized() {
    auto args = MakeArgs<PJRT_Executable_Serialize_Args>();
    args.executable = executable;
    args = Do(pjrt::kExecutable_Serialize, args);
    return last.ok() ? std::string(args.serialized_bytes, args.serialized_bytes_size) : "none";
  }
};

// A function, and how its struct is filled for a good call. Fill returns false where the plugin
// lacks what the call needs.
struct Case {
  size_t size;
  std::function<bool(World&, void*)> fill;
};

template <typename Args>
Case Of(bool (*fill)(World&, Args&)) {
  return {sizeof(Args),
          [fill](World& w, void* args) { return fill(w, *static_cast<Args*>(args)); }};
}

const std::map<size_t, Case>& Cases() {
#define CASE(name, ...)                                                                        \
  {                                                                                            \
    pjrt::k##name, Of<PJRT_##name##_Args>(                                                     \
                       []([[maybe_unused]] World& w, [[maybe_unused]] PJRT_##name##_Args& a) { \
                         __VA_ARGS__;                                                          \
                         return true;                                                          \
                       })                                                                      \
  }
// The ones whose struct has one input, made anew where the call consumes it.
#define GIVEN(name, field, value) \
  CASE(name, a.field = w.value; if (a.field == nullptr) return false)
  static const auto& cases = *new std::map<size_t, Case> {
    GIVEN(Error_Destroy, error, NewError()), GIVEN(Error_Message, error, NewError()),
        GIVEN(Error_GetCode, error, NewError()), CASE(Plugin_Initialize, ),
        CASE(Plugin_Attributes, ), GIVEN(Event_Destroy, event, NewEvent()),
        GIVEN(Event_IsReady, event, NewEvent()),
        CASE(Event_Error, a.event = w.NewEvent();
             PJRT_Event_Await_Args await = MakeArgs<PJRT_Event_Await_Args>(); await.event = a.event;
             w.Do(pjrt::kEvent_Await, await)),
        GIVEN(Event_Await, event, NewEvent()),
        CASE(
            Event_OnReady, a.event = w.NewEvent();
            a.callback = [](PJRT_Error* error,
                            void*) { PjrtUser::Take(World::Get().api, error).ok(); }),
        CASE(Client_Create, a.create_options = &w.devices; a.num_options = 1),
        CASE(Client_Destroy, auto made = MakeArgs<PJRT_Client_Create_Args>();
             made.create_options = &w.devices; made.num_options = 1;
             a.client = w.Do(pjrt::kClient_Create, made).client),
        GIVEN(Client_PlatformName, client, client), GIVEN(Client_ProcessIndex, client, client),
        GIVEN(Client_PlatformVersion, client, client), GIVEN(Client_Devices, client, client),
        GIVEN(Client_AddressableDevices, client, client),
        GIVEN(Client_LookupDevice, client, client),
        GIVEN(Client_LookupAddressableDevice, client, client),
        GIVEN(Client_AddressableMemories, client, client),
        CASE(Client_Compile, a.client = w.client; a.program = &w.program;
             a.compile_options = kOneReplica.data(); a.compile_options_size = kOneReplica.size()),
        CASE(Client_DefaultDeviceAssignment, a.client = w.client; a.num_replicas = 1;
             a.num_partitions = 2; a.default_assignment_size = 4;
             a.default_assignment = w.assignment),
        CASE(Client_BufferFromHostBuffer, a.client = w.client; a.data = w.values;
             a.type = PJRT_Buffer_Type_F32; a.dims = &w.three; a.num_dims = 1; a.device = w.device),
        GIVEN(DeviceDescription_Id, device_description, description),
        GIVEN(DeviceDescription_ProcessIndex, device_description, description),
        GIVEN(DeviceDescription_Attributes, device_description, description),
        GIVEN(DeviceDescription_Kind, device_description, description),
        GIVEN(DeviceDescription_DebugString, device_description, description),
        GIVEN(DeviceDescription_ToString, device_description, description),
        GIVEN(Device_GetDescription, device, device), GIVEN(Device_IsAddressable, device, device),
        GIVEN(Device_LocalHardwareId, device, device),
        GIVEN(Device_AddressableMemories, device, device),
        GIVEN(Device_DefaultMemory, device, device), GIVEN(Device_MemoryStats, device, device),
        GIVEN(Memory_Id, memory, memory), GIVEN(Memory_Kind, memory, memory),
        GIVEN(Memory_Kind_Id, memory, memory), GIVEN(Memory_DebugString, memory, memory),
        GIVEN(Memory_ToString, memory, memory), GIVEN(Memory_AddressableByDevices, memory, memory),
        GIVEN(Executable_Destroy, executable, NewExecutable()),
        GIVEN(Executable_Name, executable, executable),
        GIVEN(Executable_NumReplicas, executable, executable),
        GIVEN(Executable_NumPartitions, executable, executable),
        GIVEN(Executable_NumOutputs, executable, executable),
        GIVEN(Executable_SizeOfGeneratedCodeInBytes, executable, executable),
        GIVEN(Executable_GetCostAnalysis, executable, executable),
        GIVEN(Executable_OutputMemoryKinds, executable, executable),
        CASE(Executable_OptimizedProgram, a.executable = w.executable;
             static auto program = MakeArgs<PJRT_Program>(); a.program = &program),
        GIVEN(Executable_Serialize, executable, executable),
        GIVEN(Executable_OutputElementTypes, executable, executable),
        GIVEN(Executable_OutputDimensions, executable, executable),
        GIVEN(Executable_Fingerprint, executable, executable),
        GIVEN(Executable_GetCompiledMemoryStats, executable, executable),
        GIVEN(LoadedExecutable_Destroy, executable, NewLoaded()),
        GIVEN(LoadedExecutable_GetExecutable, loaded_executable, loaded),
        GIVEN(LoadedExecutable_AddressableDevices, executable, loaded),
        GIVEN(LoadedExecutable_Delete, executable, NewLoaded()),
        GIVEN(LoadedExecutable_IsDeleted, executable, loaded),
        CASE(LoadedExecutable_Execute, a.executable = w.loaded; a.options = &w.execute;
             a.argument_lists = &w.arguments; a.num_devices = 1; a.num_args = 1;
             a.output_lists = &w.outputs),
        CASE(Executable_DeserializeAndLoad, static std::string bytes; bytes = w.Serialized();
             a.client = w.client; a.serialized_executable = bytes.data();
             a.serialized_executable_size = bytes.size()),
        GIVEN(LoadedExecutable_Fingerprint, executable, loaded),
        GIVEN(LoadedExecutable_GetDeviceAssignment, executable, loaded),
        GIVEN(Buffer_Destroy, buffer, NewBuffer()), GIVEN(Buffer_ElementType, buffer, buffer),
        GIVEN(Buffer_Dimensions, buffer, buffer), GIVEN(Buffer_UnpaddedDimensions, buffer, buffer),
        GIVEN(Buffer_DynamicDimensionIndices, buffer, buffer),
        GIVEN(Buffer_GetMemoryLayout, buffer, buffer),
        GIVEN(Buffer_OnDeviceSizeInBytes, buffer, buffer), GIVEN(Buffer_Device, buffer, buffer),
        GIVEN(Buffer_Memory, buffer, buffer), GIVEN(Buffer_Delete, buffer, NewBuffer()),
        GIVEN(Buffer_IsDeleted, buffer, buffer),
        CASE(Buffer_CopyToDevice, a.buffer = w.buffer; a.dst_device = w.user.devices().back()),
        CASE(Buffer_CopyToMemory, a.buffer = w.buffer; a.dst_memory = w.memory),
        GIVEN(Buffer_ToHostBuffer, src, buffer), GIVEN(Buffer_IsOnCpu, buffer, buffer),
        GIVEN(Buffer_ReadyEvent, buffer, buffer), GIVEN(Buffer_UnsafePointer, buffer, buffer),
        GIVEN(Buffer_IncreaseExternalReferenceCount, buffer, buffer),
        CASE(Buffer_DecreaseExternalReferenceCount, a.buffer = w.NewBuffer();
             auto more = MakeArgs<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
             more.buffer = a.buffer; w.Do(pjrt::kBuffer_IncreaseExternalReferenceCount, more)),
        GIVEN(Buffer_OpaqueDeviceMemoryDataPointer, buffer, buffer),
        CASE(Buffer_CopyRawToHost, a.buffer = w.buffer; static float raw[3]; a.dst = raw;
             a.transfer_size = sizeof(raw)),
        CASE(TopologyDescription_Create, a.create_options = nullptr),
        CASE(TopologyDescription_PlatformName, a.topology = w.Topology(); return w.last.ok()),
        CASE(TopologyDescription_PlatformVersion, a.topology = w.Topology(); return w.last.ok()),
        CASE(TopologyDescription_GetDeviceDescriptions, a.topology = w.Topology();
             return w.last.ok()),
        CASE(TopologyDescription_Serialize, a.topology = w.Topology(); return w.last.ok()),
        CASE(TopologyDescription_Attributes, a.topology = w.Topology(); return w.last.ok()),
        CASE(TopologyDescription_Deserialize, a.serialized_topology = "none";
             a.serialized_topology_size = 4),
        CASE(Compile, a.topology = w.Topology(); a.program = &w.program;
             a.compile_options = kOneReplica.data(); a.compile_options_size = kOneReplica.size();
             return w.last.ok()),
        CASE(Client_CreateViewOfDeviceBuffer, alignas(64) static float view[3] = {};
             a.client = w.client; a.device_buffer_ptr = view; a.dims = &w.three; a.num_dims = 1;
             a.element_type = PJRT_Buffer_Type_F32; a.device = w.device),
        GIVEN(Client_TopologyDescription, client, client), CASE(ExecuteContext_Create, ),
        CASE(ExecuteContext_Destroy, auto made = MakeArgs<PJRT_ExecuteContext_Create_Args>();
             a.context = w.Do(pjrt::kExecuteContext_Create, made).context; return w.last.ok()),
        GIVEN(AsyncHostToDeviceTransferManager_Destroy, transfer_manager, NewTransfer()),
        CASE(AsyncHostToDeviceTransferManager_TransferData, a.transfer_manager = w.NewTransfer();
             a.data = w.values; a.transfer_size = sizeof(w.values); a.is_last_transfer = true),
        CASE(Client_CreateBuffersForAsyncHostToDevice, a.client = w.client;
             a.shape_specs = &w.shape; a.num_shape_specs = 1; a.memory = w.memory),
        GIVEN(AsyncHostToDeviceTransferManager_RetrieveBuffer, transfer_manager, NewTransfer()),
        GIVEN(AsyncHostToDeviceTransferManager_Device, transfer_manager, NewTransfer()),
        GIVEN(AsyncHostToDeviceTransferManager_BufferCount, transfer_manager, NewTransfer()),
        GIVEN(AsyncHostToDeviceTransferManager_BufferSize, transfer_manager, NewTransfer()),
        CASE(AsyncHostToDeviceTransferManager_SetBufferError, a.transfer_manager = w.NewTransfer();
             a.error_code = PJRT_Error_Code_INTERNAL; a.error_message = "no";
             a.error_message_size = 2),
        GIVEN(AsyncHostToDeviceTransferManager_AddMetadata, transfer_manager, NewTransfer()),
        CASE(Client_DmaMap, a.client = w.client; a.data = w.values; a.size = sizeof(w.values)),
        CASE(Client_DmaUnmap, a.client = w.client; a.data = w.values),
        CASE(Client_CreateUninitializedBuffer, a.client = w.client; a.shape_dims = &w.three;
             a.shape_num_dims = 1; a.shape_element_type = PJRT_Buffer_Type_F32;
             a.device = w.device),
        GIVEN(Client_UpdateGlobalProcessInfo, client, client),
        CASE(Client_CreateAliasBuffer, a.client = w.client; a.memory = w.memory;
             a.shape_dims = &w.three; a.shape_num_dims = 1;
             a.shape_element_type = PJRT_Buffer_Type_F32),
  };
#undef GIVEN
#undef CASE
  return cases;
}

// Functions without a good call: streams are made only for a program's callbacks, a topology is
// destroyed only where one was made, an alias is fulfilled only by its own callback.
bool HasNoGoodCall(size_t slot) {
  return (slot >= pjrt::kCopyToDeviceStream_Destroy &&
          slot <= pjrt::kCopyToDeviceStream_CurrentBytes) ||
         slot == pjrt::kTopologyDescription_Destroy || slot == pjrt::kClient_FulfillAliasBuffer;
}

// What the pinned engine does not do, or not for such a call.
bool MayBeRefused(size_t slot) {
  switch (slot) {
    case pjrt::kTopologyDescription_Create:
    case pjrt::kTopologyDescription_Serialize:
    case pjrt::kTopologyDescription_Deserialize:
    case pjrt::kExecutable_GetCostAnalysis:
    case pjrt::kLoadedExecutable_Fingerprint:
    case pjrt::kBuffer_UnsafePointer:
    case pjrt::kClient_DmaMap:
    case pjrt::kClient_DmaUnmap:
    case pjrt::kCompile:
    case pjrt::kClient_UpdateGlobalProcessInfo:
    case pjrt::kAsyncHostToDeviceTransferManager_AddMetadata:
    case pjrt::kClient_CreateAliasBuffer:  // wants a layout that has tiles
      return true;
    case pjrt::kDevice_MemoryStats:
      return ThePlugin() != Plugin::kLibtpu;
    default:
      return ThePlugin() == Plugin::kLibtpuOnFake;
  }
}

// The function's struct as a caller of `size` bytes has it, filled as far as it goes; and the call.
Status CallWithSize(size_t slot, const Case& of, size_t size) {
  World& w = World::Get();
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler not_freed_here;
#endif
  alignas(8) char whole[pjrt::kAmpleSize] = {};
  if (!of.fill(w, whole)) return Unimplemented("{} (what it needs)", pjrt::FunctionName(slot));
  std::memcpy(whole, &size, sizeof(size));
  const Edge edge(size);
  std::memcpy(edge.at(), whole, size);
  return w.Call(slot, edge.at());
}

void ExpectDone(size_t slot, const Status& status, size_t size) {
  if (status.ok()) return;
  EXPECT_TRUE(MayBeRefused(slot)) << pjrt::FunctionName(slot) << " with " << size
                                  << " bytes: " << status.ToString();
  if (status.code() == Code::kUnimplemented && ThePlugin() != Plugin::kEngine) {
    EXPECT_THAT(status.message(), AnyOf(HasSubstr(pjrt::FunctionName(slot)), HasSubstr("upport"),
                                        HasSubstr("mplement")));
  }
}

TEST(PjrtApi, HasEveryFunction) {
  const auto* table = reinterpret_cast<const pjrt::Table*>(World::Get().api);
  for (size_t slot = 0; slot < pjrt::kSlots; ++slot) {
    if (pjrt::kFirstFunction + (slot + 1) * sizeof(void*) > table->struct_size) break;
    if (ThePlugin() == Plugin::kEngine) continue;  // it has gaps, which libtpu.so fills
    EXPECT_NE(table->functions[slot], nullptr) << pjrt::FunctionName(slot);
  }
  for (size_t slot = 0; slot < pjrt::kHeaderSlots; ++slot) {
    EXPECT_NE(Cases().contains(slot), HasNoGoodCall(slot)) << pjrt::FunctionName(slot);
  }
}

TEST(PjrtApi, TakesAGoodCall) {
  for (const auto& [slot, of] : Cases()) {
    SCOPED_TRACE(pjrt::FunctionName(slot));
    ExpectDone(slot, CallWithSize(slot, of, of.size), of.size);
  }
}

TEST(PjrtApi, TakesTheLongerStructsOfNewerFrameworks) {
  for (const auto& [slot, of] : Cases()) {
    for (const size_t size : {of.size + 8, of.size + 64, pjrt::kAmpleSize}) {
      SCOPED_TRACE(pjrt::FunctionName(slot));
      ExpectDone(slot, CallWithSize(slot, of, size), size);
    }
  }
}

// The structs that grew, as each older version had them (PJRT's changelog).
TEST(PjrtApi, TakesTheShorterStructsOfOlderFrameworks) {
  if (ThePlugin() == Plugin::kEngine) GTEST_SKIP() << "engines refuse them";
  const std::pair<size_t, size_t> older[] = {
      {pjrt::kClient_Create, offsetof(PJRT_Client_Create_Args, kv_try_get_callback)},
      {pjrt::kClient_CreateViewOfDeviceBuffer,
       offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, memory)},
      {pjrt::kExecutable_DeserializeAndLoad,
       offsetof(PJRT_Executable_DeserializeAndLoad_Args, overridden_serialized_compile_options)},
      {pjrt::kExecutable_GetCompiledMemoryStats,
       offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, peak_memory_in_bytes)},
  };
  for (const auto& [slot, size] : older) {
    ExpectDone(slot, CallWithSize(slot, Cases().at(slot), size), size);
  }
}

TEST(PjrtApi, TakesTheExecuteOptionsOfEveryVersion) {
  if (ThePlugin() == Plugin::kEngine) GTEST_SKIP() << "engines refuse shorter ones";
  World& w = World::Get();
  for (const size_t size :
       {offsetof(PJRT_ExecuteOptions, context), offsetof(PJRT_ExecuteOptions, call_location),
        offsetof(PJRT_ExecuteOptions, num_tasks), sizeof(PJRT_ExecuteOptions),
        sizeof(PJRT_ExecuteOptions) + 8, pjrt::kAmpleSize}) {
    const Edge edge(size);  // zeros are good options
    std::memcpy(edge.at(), &size, sizeof(size));
    auto args = MakeArgs<PJRT_LoadedExecutable_Execute_Args>();
    Cases().at(pjrt::kLoadedExecutable_Execute).fill(w, &args);
    args.options = reinterpret_cast<PJRT_ExecuteOptions*>(edge.at());
    const Status done = w.Call(pjrt::kLoadedExecutable_Execute, &args);
    ASSERT_TRUE(done.ok()) << size << ": " << done.ToString();
    EXPECT_TRUE(w.user.Destroy(w.output).ok());
  }
}

TEST(PjrtApi, RefusesStructsThatLackInputs) {
  if (ThePlugin() == Plugin::kEngine) GTEST_SKIP() << "ours to promise";
  World& w = World::Get();
  for (size_t slot = 0; slot < pjrt::kSlots; ++slot) {
    const bool says_nothing = slot == pjrt::kError_Destroy || slot == pjrt::kError_Message;
    for (size_t size = 8; size < pjrt::LeastSize(slot); size += 8) {
      const Edge edge(size);
      std::memcpy(edge.at(), &size, sizeof(size));
      const Status status = w.Call(slot, edge.at());
      if (says_nothing) continue;
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << pjrt::FunctionName(slot) << " " << size;
      EXPECT_THAT(status.message(), HasSubstr(pjrt::FunctionName(slot)));
    }
    const Status status = w.Call(slot, nullptr);
    EXPECT_EQ(status.code(), says_nothing ? Code::kOk : Code::kInvalidArgument)
        << pjrt::FunctionName(slot);
  }
}

// Of these only Torus's own are known by their structs; a struct with nothing in it never crashes.
TEST(PjrtApi, RefusesAnEmptyStructOfALaterFunction) {
  if (ThePlugin() == Plugin::kEngine) GTEST_SKIP() << "ours to promise";
  for (size_t slot = pjrt::kHeaderSlots; slot < pjrt::kSlots; ++slot) {
    const size_t size = 2 * sizeof(void*);
    const Edge edge(size);
    std::memcpy(edge.at(), &size, sizeof(size));
    EXPECT_FALSE(World::Get().Call(slot, edge.at()).ok()) << pjrt::FunctionName(slot);
  }
}

// ---- What is freed, in each order

class Freeing : public ::testing::Test {
 protected:
  World& w = World::Get();

  void Destroy(size_t slot, void* object) {
    struct {
      size_t size = sizeof(*this);
      void* extensions = nullptr;
      void* object;
    } args;
    args.object = object;
    const Status done = w.Call(slot, &args);
    EXPECT_TRUE(done.ok()) << pjrt::FunctionName(slot) << ": " << done.ToString();
  }
};

TEST_F(Freeing, OutputsOutliveTheirProgram) {
  PJRT_LoadedExecutable* program = w.NewLoaded();
  PJRT_Buffer* argument = w.NewBuffer();
  const auto outputs = w.user.Run(program, {argument}, 1);
  ASSERT_TRUE(outputs) << outputs.error().ToString();
  Destroy(pjrt::kBuffer_Destroy, argument);
  Destroy(pjrt::kLoadedExecutable_Destroy, program);
  Destroy(pjrt::kBuffer_Destroy, outputs->front());
}

// It may be freed later, and no more: the engine reads it by way of the loaded one.
TEST_F(Freeing, AnExecutableIsFreedAfterItsLoadedOne) {
  PJRT_LoadedExecutable* program = w.NewLoaded();
  auto args = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
  args.loaded_executable = program;
  ASSERT_TRUE(w.Call(pjrt::kLoadedExecutable_GetExecutable, &args).ok());
  Destroy(pjrt::kLoadedExecutable_Destroy, program);
  Destroy(pjrt::kExecutable_Destroy, args.executable);
}

TEST_F(Freeing, AnEventOutlivesItsBuffer) {
  PJRT_Buffer* buffer = w.NewBuffer();
  auto ready = MakeArgs<PJRT_Buffer_ReadyEvent_Args>();
  ready.buffer = buffer;
  ASSERT_TRUE(w.Call(pjrt::kBuffer_ReadyEvent, &ready).ok());
  Destroy(pjrt::kBuffer_Destroy, buffer);
  Destroy(pjrt::kEvent_Destroy, ready.event);
}

TEST_F(Freeing, ABufferIsDeletedTwiceAndThenDestroyed) {
  PJRT_Buffer* buffer = w.NewBuffer();
  Destroy(pjrt::kBuffer_Delete, buffer);
  Destroy(pjrt::kBuffer_Delete, buffer);
  auto deleted = MakeArgs<PJRT_Buffer_IsDeleted_Args>();
  deleted.buffer = buffer;
  EXPECT_TRUE(w.Call(pjrt::kBuffer_IsDeleted, &deleted).ok() && deleted.is_deleted);
  Destroy(pjrt::kBuffer_Destroy, buffer);
}

TEST_F(Freeing, ARetrievedBufferOutlivesItsTransfer) {
  auto* transfer = w.NewTransfer();
  ASSERT_NE(transfer, nullptr) << w.last.ToString();
  auto data = MakeArgs<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>();
  data.transfer_manager = transfer;
  data.data = w.values;
  data.transfer_size = sizeof(w.values);
  data.is_last_transfer = true;
  if (w.Call(pjrt::kAsyncHostToDeviceTransferManager_TransferData, &data).ok()) {
    Destroy(pjrt::kEvent_Destroy, data.done_with_h2d_transfer);
  }
  auto retrieve = MakeArgs<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>();
  retrieve.transfer_manager = transfer;
  ASSERT_TRUE(w.Call(pjrt::kAsyncHostToDeviceTransferManager_RetrieveBuffer, &retrieve).ok());
  Destroy(pjrt::kAsyncHostToDeviceTransferManager_Destroy, transfer);
  Destroy(pjrt::kBuffer_Destroy, retrieve.buffer_out);
}

TEST_F(Freeing, AnErrorIsReadAndFreed) {
  PJRT_Error* error = w.NewError();
  ASSERT_NE(error, nullptr);
  const Status status = PjrtUser::Take(w.api, error);
  EXPECT_FALSE(status.message().empty());
}

// ---- Many rounds

// Compiles, runs and frees one program; `number` makes it another program each time.
Status Round(World& w, int number) {
  std::string code = w.code;
  if (const auto at = code.find("1.0"); at != code.npos) {
    code.replace(at, 3, std::to_string(number) + ".0");
  }
  TORUS_ASSIGN_OR_RETURN(PJRT_LoadedExecutable * program, w.user.Compile(code));
  TORUS_ASSIGN_OR_RETURN(PJRT_Buffer * argument, w.user.FromHost({1, 2, 3}));
  TORUS_ASSIGN_OR_RETURN(const auto outputs, w.user.Run(program, {argument}, 1));
  TORUS_RETURN_IF_ERROR(w.user.Destroy(argument));
  TORUS_RETURN_IF_ERROR(w.user.Destroy(outputs.front()));
  return w.user.Destroy(program);
}

int64_t ResidentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Rounds, LeaveNothingBehind) {
  World& w = World::Get();
  const bool soak = std::getenv("TORUS_SOAK") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const int rounds = soak ? 10'000 : 300;
  int64_t before = 0;
  for (int i = 0; i < rounds; ++i) {
    if (i == rounds / 3) before = ResidentBytes();  // arenas and caches have their size by then
    const Status done = Round(w, i);
    ASSERT_TRUE(done.ok()) << done.ToString();
  }
  const int64_t grown = ResidentBytes() - before;
  RecordProperty("grown_bytes", std::to_string(grown));
  std::printf("%d rounds; the last two thirds grew the process by %ld KiB\n", rounds, grown / 1024);
#ifndef TORUS_SANITIZED  // which keep freed memory for a while
  EXPECT_LT(grown, 8 << 20);
#endif
}

TEST(Rounds, RunSideBySide) {
  World& w = World::Get();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&w, t] {
      for (int i = 0; i < 25; ++i) {
        const Status done = Round(w, 100 * t + i);
        EXPECT_TRUE(done.ok()) << done.ToString();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace torus::tpu
