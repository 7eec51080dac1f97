// The software TPU over the fake engine: identity, accounts and errors, without XLA.
#include "tpu/device/software_tpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tpu/pjrt/engine.h"
#include "tpu/testing/pjrt_user.h"

namespace torus::tpu {
namespace {

using pjrt::MakeArgs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kV4Hbm = 3075 * kGiB / 100;

// /proc of a host with more memory than any test asks for, unless a test says otherwise.
const PJRT_Api* MakeApi(std::string type = "v4-8", HostMemory::Roots host = {"/none", "/none"}) {
  return MakeSoftwareTpu(pjrt::Engine::Open(FAKE_ENGINE),
                         {.version = "1.2.3",
                          .release_epoch = 1795996800,
                          .slice_source = [type] { return SliceSource{.accelerator_type = type}; },
                          .host = host});
}

class SoftwareTpu : public ::testing::Test {
 protected:
  SoftwareTpu() : user_(*PjrtUser::Make(MakeApi())) {}

  PJRT_Buffer* Floats(size_t count) { return *user_.FromHost(std::vector<float>(count)); }
  PJRT_LoadedExecutable* Program(std::string_view words) { return *user_.Compile(words); }
  int64_t InUse(int device = 0) { return user_.MemoryStats(device)->bytes_in_use; }
  Status Take(PJRT_Error* error) { return PjrtUser::Take(user_.api(), error); }
  void Free(PJRT_Buffer* buffer) { EXPECT_TRUE(user_.Destroy(buffer).ok()); }

  PjrtUser user_;
};

// ---- Identity

TEST_F(SoftwareTpu, SaysThatItIsATpu) {
  auto name = MakeArgs<PJRT_Client_PlatformName_Args>();
  auto version = MakeArgs<PJRT_Client_PlatformVersion_Args>();
  name.client = version.client = user_.client();
  ASSERT_TRUE(Take(user_.api()->PJRT_Client_PlatformName(&name)).ok());
  ASSERT_TRUE(Take(user_.api()->PJRT_Client_PlatformVersion(&version)).ok());
  EXPECT_EQ(std::string_view(name.platform_name, name.platform_name_size), "tpu");
  EXPECT_EQ(std::string_view(version.platform_version, version.platform_version_size),
            "Torus 1.2.3: a software TPU on PJRT 0.81 engine fake 1 one\nTFRT TPU v4\n"
            "Built on Nov 30 2026 00:00:00 (1795996800) cl/0");
}

TEST_F(SoftwareTpu, DescribesItsDevices) {
  ASSERT_EQ(user_.devices().size(), 4u);
  auto kind = MakeArgs<PJRT_DeviceDescription_Kind_Args>();
  auto debug = MakeArgs<PJRT_DeviceDescription_DebugString_Args>();
  auto text = MakeArgs<PJRT_DeviceDescription_ToString_Args>();
  kind.device_description = debug.device_description = text.device_description =
      user_.Description(3);
  ASSERT_TRUE(Take(user_.api()->PJRT_DeviceDescription_Kind(&kind)).ok());
  ASSERT_TRUE(Take(user_.api()->PJRT_DeviceDescription_DebugString(&debug)).ok());
  ASSERT_TRUE(Take(user_.api()->PJRT_DeviceDescription_ToString(&text)).ok());
  EXPECT_EQ(std::string_view(kind.device_kind, kind.device_kind_size), "TPU v4");
  EXPECT_STREQ(debug.debug_string, "TPU_3(process=0,(1,1,0,0))");
  EXPECT_STREQ(text.to_string, "TpuDevice(id=3, process_index=0, coords=(1,1,0), core_on_chip=0)");
}

void ExpectV4Attributes(const PJRT_NamedValue* values, size_t count) {
  std::map<std::string, const PJRT_NamedValue*> by_name;
  for (size_t i = 0; i < count; ++i) {
    by_name[std::string(values[i].name, values[i].name_size)] = &values[i];
  }
  ASSERT_EQ(by_name.size(), 5u);
  EXPECT_EQ(by_name["coords"]->value_size, 3u);
  EXPECT_EQ(by_name["coords"]->int64_array_value[0], 1);
  EXPECT_EQ(by_name["core_on_chip"]->int64_value, 0);
  EXPECT_EQ(by_name["num_cores"]->int64_value, 2);
  EXPECT_EQ(by_name["slice_index"]->int64_value, 0);
  const auto* type = by_name["accelerator_type"];
  EXPECT_EQ(std::string_view(type->string_value, type->value_size), "v4-8");
}

TEST_F(SoftwareTpu, GivesAttributesByTheOldDoorAndTheNew) {
  auto old = MakeArgs<PJRT_DeviceDescription_Attributes_Args>();
  old.device_description = user_.Description(1);
  ASSERT_TRUE(Take(user_.api()->PJRT_DeviceDescription_Attributes(&old)).ok());
  ExpectV4Attributes(old.attributes, old.num_attributes);

  pjrt::DeviceGetAttributesArgs args{sizeof(args), nullptr, user_.devices()[1]};
  const auto* table = reinterpret_cast<const pjrt::Table*>(user_.api());
  ASSERT_TRUE(Take(table->functions[pjrt::kDevice_GetAttributes](&args)).ok());
  ExpectV4Attributes(args.attributes, args.num_attributes);
  args.deleter(args.device_attributes);
}

TEST_F(SoftwareTpu, HasNoNullEntryAndTheEnginesVersion) {
  const auto* table = reinterpret_cast<const pjrt::Table*>(user_.api());
  for (size_t slot = 0; slot < pjrt::kSlots; ++slot) {
    EXPECT_NE(table->functions[slot], nullptr) << pjrt::FunctionName(slot);
  }
  EXPECT_EQ(table->version.minor_version, 81);
  EXPECT_EQ(table->struct_size, static_cast<size_t>(PJRT_Api_STRUCT_SIZE));
  auto args = MakeArgs<PJRT_Event_Await_Args>();
  EXPECT_THAT(Take(user_.api()->PJRT_Event_Await(&args)).message(), HasSubstr("PJRT_Event_Await"));
}

// ---- HBM

TEST_F(SoftwareTpu, AccountsForBuffersOfEveryMaking) {
  PJRT_Buffer* host = Floats(256);
  EXPECT_EQ(InUse(), 1024);
  PJRT_Buffer* raw = *user_.Uninitialized(512);
  EXPECT_EQ(InUse(), 1024 + 2048);

  auto to_device = MakeArgs<PJRT_Buffer_CopyToDevice_Args>();
  to_device.buffer = raw;
  to_device.dst_device = user_.devices()[2];
  ASSERT_TRUE(Take(user_.api()->PJRT_Buffer_CopyToDevice(&to_device)).ok());
  EXPECT_EQ(InUse(2), 2048);

  auto memories = MakeArgs<PJRT_Device_AddressableMemories_Args>();
  memories.device = user_.devices()[1];
  ASSERT_TRUE(Take(user_.api()->PJRT_Device_AddressableMemories(&memories)).ok());
  auto to_memory = MakeArgs<PJRT_Buffer_CopyToMemory_Args>();
  to_memory.buffer = host;
  to_memory.dst_memory = memories.memories[0];
  ASSERT_TRUE(Take(user_.api()->PJRT_Buffer_CopyToMemory(&to_memory)).ok());
  EXPECT_EQ(InUse(1), 1024);
  Free(to_memory.dst_buffer);
  to_memory.dst_memory = memories.memories[1];  // pinned_host
  ASSERT_TRUE(Take(user_.api()->PJRT_Buffer_CopyToMemory(&to_memory)).ok());
  EXPECT_EQ(InUse(1), 0);

  for (PJRT_Buffer* buffer : {host, raw, to_device.dst_buffer, to_memory.dst_buffer}) Free(buffer);
  for (int device = 0; device < 4; ++device) EXPECT_EQ(InUse(device), 0);
  EXPECT_EQ(user_.MemoryStats(0)->peak_bytes_in_use, 3072);
  EXPECT_EQ(user_.MemoryStats(0)->num_allocs, 2);
  EXPECT_EQ(user_.MemoryStats(0)->largest_alloc_size, 2048);
  EXPECT_EQ(user_.MemoryStats(0)->bytes_limit, kV4Hbm);
}

TEST_F(SoftwareTpu, DeleteLetsGoOnce) {
  PJRT_Buffer* buffer = Floats(256);
  auto args = MakeArgs<PJRT_Buffer_Delete_Args>();
  args.buffer = buffer;
  ASSERT_TRUE(Take(user_.api()->PJRT_Buffer_Delete(&args)).ok());
  EXPECT_EQ(InUse(), 0);
  Free(buffer);
  EXPECT_EQ(InUse(), 0);
}

TEST_F(SoftwareTpu, AccountsForARunsOutputsAndTemporaries) {
  PJRT_LoadedExecutable* program = Program("name=f outputs=2 bytes=1000 temp=5000");
  for (int run = 1; run <= 3; ++run) {
    const auto outputs = user_.Run(program, {}, 2);
    ASSERT_TRUE(outputs) << outputs.error().ToString();
    EXPECT_EQ(InUse(), 2000);
    EXPECT_EQ(user_.MemoryStats()->peak_bytes_in_use, 7000);
    EXPECT_EQ(user_.MemoryStats()->num_allocs, 2 * run);
    for (PJRT_Buffer* output : *outputs) Free(output);
    EXPECT_EQ(InUse(), 0);
  }
  EXPECT_TRUE(user_.Destroy(program).ok());
}

TEST_F(SoftwareTpu, OutputsInHostMemoryTakeNoHbm) {
  PJRT_LoadedExecutable* program = Program("name=f outputs=1 bytes=1000 host");
  const auto outputs = user_.Run(program, {}, 1);
  ASSERT_TRUE(outputs);
  EXPECT_EQ(InUse(), 0);
  Free((*outputs)[0]);
  EXPECT_TRUE(user_.Destroy(program).ok());
}

TEST_F(SoftwareTpu, ADonatedArgumentLetsGo) {
  PJRT_LoadedExecutable* program = Program("name=f outputs=1 bytes=4000 alias=4000 donates=1");
  PJRT_Buffer* kept = Floats(10);
  for (int run = 0; run < 3; ++run) {
    PJRT_Buffer* given = Floats(1000);
    EXPECT_EQ(InUse(), 4096 + 512);
    const auto outputs = user_.Run(program, {kept, given}, 1);
    ASSERT_TRUE(outputs);
    EXPECT_EQ(InUse(), 4000 + 512);
    Free(given);
    Free((*outputs)[0]);
    EXPECT_EQ(InUse(), 512);
  }
  Free(kept);
  EXPECT_TRUE(user_.Destroy(program).ok());
}

TEST_F(SoftwareTpu, AccountsForBuffersFilledPieceByPiece) {
  const int64_t dims[] = {100};
  PJRT_ShapeSpec shapes[2] = {};
  for (auto& shape : shapes) shape = {sizeof(shape), nullptr, dims, 1, PJRT_Buffer_Type_F32};
  auto memories = MakeArgs<PJRT_Device_AddressableMemories_Args>();
  memories.device = user_.devices()[0];
  ASSERT_TRUE(Take(user_.api()->PJRT_Device_AddressableMemories(&memories)).ok());
  auto create = MakeArgs<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>();
  create.client = user_.client();
  create.shape_specs = shapes;
  create.num_shape_specs = 2;
  create.memory = memories.memories[0];
  ASSERT_TRUE(Take(user_.api()->PJRT_Client_CreateBuffersForAsyncHostToDevice(&create)).ok());
  EXPECT_EQ(InUse(), 1024);
  auto retrieve = MakeArgs<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>();
  retrieve.transfer_manager = create.transfer_manager;
  retrieve.buffer_index = 1;
  ASSERT_TRUE(
      Take(user_.api()->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(&retrieve)).ok());
  EXPECT_EQ(InUse(), 1024);
  auto destroy = MakeArgs<PJRT_AsyncHostToDeviceTransferManager_Destroy_Args>();
  destroy.transfer_manager = create.transfer_manager;
  ASSERT_TRUE(Take(user_.api()->PJRT_AsyncHostToDeviceTransferManager_Destroy(&destroy)).ok());
  EXPECT_EQ(InUse(), 512);
  Free(retrieve.buffer_out);
  EXPECT_EQ(InUse(), 0);
}

TEST_F(SoftwareTpu, RefusesABufferBeyondTheHbm) {
  const auto buffer = user_.Uninitialized(10 * kGiB);  // 40 GiB of floats
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code(), Code::kResourceExhausted);
  EXPECT_THAT(buffer.error().message(),
              AllOf(HasSubstr("Ran out of memory"), HasSubstr("Attempting to allocate 40.00G"),
                    HasSubstr("There are 30.75G free.; (0x0x0_HBM0)")));
  EXPECT_EQ(user_.Uninitialized(int64_t{1} << 62).error().code(), Code::kResourceExhausted);
}

TEST_F(SoftwareTpu, RefusesAtCompileTimeWhatCanNeverRun) {
  const auto temporaries = user_.Compile("name=jit_f temp=40000000000");
  ASSERT_FALSE(temporaries);
  EXPECT_EQ(temporaries.error().ToString(),
            "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total "
            "memory required for HLO temporaries (37.25G) exceeds available HBM (30.75G). HLO "
            "module: jit_f.");
  const auto outputs = user_.Compile("name=jit_g outputs=2 bytes=20000000000");
  ASSERT_FALSE(outputs);
  EXPECT_THAT(outputs.error().message(), HasSubstr("Ran out of memory on HBM"));
}

TEST_F(SoftwareTpu, RefusesARunBesideWhatIsInUse) {
  PJRT_Buffer* large = *user_.Uninitialized(5 * kGiB);
  PJRT_LoadedExecutable* program = Program("name=jit_f outputs=1 bytes=15000000000");
  const auto outputs = user_.Run(program, {}, 1);
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().code(), Code::kResourceExhausted);
  EXPECT_THAT(outputs.error().message(), AllOf(HasSubstr("'jit_f'"), HasSubstr("Ran out of memory"),
                                               HasSubstr("10.75G free")));
  Free(large);
  const auto later = user_.Run(program, {}, 1);
  ASSERT_TRUE(later) << later.error().ToString();
  Free((*later)[0]);
  EXPECT_TRUE(user_.Destroy(program).ok());
}

TEST_F(SoftwareTpu, TakesTheShorterOptionsOfAnOlderFramework) {
  PJRT_LoadedExecutable* program = Program("name=f outputs=1 bytes=8");
  const auto outputs = user_.Run(program, {}, 1, 80);
  ASSERT_TRUE(outputs) << outputs.error().ToString();
  Free((*outputs)[0]);
  EXPECT_TRUE(user_.Destroy(program).ok());
}

TEST_F(SoftwareTpu, GoesOnAfterAFailedCompilation) {
  const auto failed = user_.Compile("fail");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().ToString(), "INVALID_ARGUMENT: the fake cannot compile it");
  EXPECT_TRUE(user_.Destroy(Program("name=f outputs=1 bytes=8")).ok());
}

TEST_F(SoftwareTpu, HbmIsEachDevicesOwn) {
  PJRT_Buffer* buffer = *user_.FromHost(std::vector<float>(256), 2);
  EXPECT_EQ(InUse(2), 1024);
  EXPECT_EQ(InUse(0), 0);
  Free(buffer);
}

TEST_F(SoftwareTpu, ARunOnANamedDeviceIsThatDevices) {
  PJRT_LoadedExecutable* program = Program("name=f outputs=1 bytes=1000");
  auto options = MakeArgs<PJRT_ExecuteOptions>();
  PJRT_Buffer* output = nullptr;
  PJRT_Buffer** const outputs = &output;
  PJRT_Buffer* const* const arguments = nullptr;
  auto args = MakeArgs<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = program;
  args.options = &options;
  args.argument_lists = &arguments;
  args.num_devices = 1;
  args.output_lists = &outputs;
  args.execute_device = user_.devices()[3];
  ASSERT_TRUE(Take(user_.api()->PJRT_LoadedExecutable_Execute(&args)).ok());
  EXPECT_EQ(InUse(3), 1000);
  EXPECT_EQ(InUse(0), 0);
  Free(output);
  EXPECT_EQ(InUse(3), 0);
  EXPECT_TRUE(user_.Destroy(program).ok());
}

// ---- What may be wrong around it

TEST(SoftwareTpuHost, RefusesWhatFitsTheChipAndNotTheHost) {
  const std::string proc = ::testing::TempDir() + "/software_tpu_host";
  ASSERT_EQ(
      system(("mkdir -p " + proc + " && echo 'MemAvailable: 1048576 kB' > " + proc + "/meminfo")
                 .c_str()),
      0);
  const auto user = PjrtUser::Make(MakeApi("v4-8", {proc, "/none"}));
  ASSERT_TRUE(user);
  const auto buffer = user->Uninitialized(kGiB / 2);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code(), Code::kResourceExhausted);
  EXPECT_THAT(buffer.error().message(), HasSubstr("fits the chip, not this host"));
  PJRT_LoadedExecutable* program = *user->Compile("name=jit_f outputs=1 bytes=2147483648");
  const auto run = user->Run(program, {}, 1);
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message(), HasSubstr("jit_f needs 2.00G, which fits the chip"));
  EXPECT_TRUE(user->Destroy(program).ok());
  // What nobody has written yet counts: two buffers of 0.5 GiB do not fit 1 GiB less the reserve.
  PJRT_Buffer* first = *user->Uninitialized(kGiB / 8);
  EXPECT_FALSE(user->Uninitialized(kGiB / 8));
  EXPECT_TRUE(user->Destroy(first).ok());
  EXPECT_TRUE(user->Destroy(*user->Uninitialized(kGiB / 8)).ok());
}

TEST(SoftwareTpuErrors, AWrongSliceIsSaidByInitializeAndCreate) {
  const PJRT_Api* api = MakeApi("v9-8");
  auto initialize = MakeArgs<PJRT_Plugin_Initialize_Args>();
  auto create = MakeArgs<PJRT_Client_Create_Args>();
  for (PJRT_Error* error :
       {api->PJRT_Plugin_Initialize(&initialize), api->PJRT_Client_Create(&create)}) {
    const Status status = PjrtUser::Take(api, error);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("'v9-8'"));
  }
}

TEST(SoftwareTpuErrors, AMissingEngineIsSaidByEveryFunction) {
  const PJRT_Api* api = MakeSoftwareTpu(pjrt::Engine::Open("/no/engine.so"), {.version = "1"});
  EXPECT_EQ(api->pjrt_api_version.minor_version, pjrt::kNewestMinor);
  EXPECT_EQ(api->struct_size, sizeof(pjrt::Table));
  const auto* table = reinterpret_cast<const pjrt::Table*>(api);
  for (size_t slot = pjrt::kPlugin_Initialize; slot < pjrt::kSlots; ++slot) {
    struct {
      size_t struct_size = sizeof(*this);
      void* fields[40] = {};
    } args;
    PJRT_Error* error = table->functions[slot](&args);
    if (slot == pjrt::kClient_PlatformName || slot == pjrt::kTopologyDescription_PlatformName) {
      EXPECT_EQ(error, nullptr);
      continue;
    }
    if (slot == pjrt::kDevice_MemoryStats || slot == pjrt::kDevice_GetAttributes ||
        slot == pjrt::kDevice_ClearMemoryStats) {
      EXPECT_EQ(PjrtUser::Take(api, error).code(), Code::kInvalidArgument);
      continue;
    }
    const Status status = PjrtUser::Take(api, error);
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << pjrt::FunctionName(slot);
    EXPECT_THAT(status.message(), HasSubstr("/no/engine.so")) << pjrt::FunctionName(slot);
  }
}

TEST(SoftwareTpuClients, ComeAndGoAndTakeTheirAccountsAlong) {
  const PJRT_Api* api = MakeApi("v2-8");
  for (int i = 0; i < 3; ++i) {
    auto buffer = MakeArgs<PJRT_Buffer_Destroy_Args>();
    auto program = MakeArgs<PJRT_LoadedExecutable_Destroy_Args>();
    {
      const auto user = PjrtUser::Make(api);
      ASSERT_TRUE(user);
      EXPECT_EQ(user->devices().size(), 8u);
      EXPECT_EQ(user->MemoryStats(7)->bytes_in_use, 0);
      buffer.buffer = *user->FromHost(std::vector<float>(256), 7);
      program.executable = *user->Compile("name=f outputs=1 bytes=8");
    }
    // As a framework's exit handlers may do it: after the client.
    EXPECT_TRUE(PjrtUser::Take(api, api->PJRT_Buffer_Destroy(&buffer)).ok());
    EXPECT_TRUE(PjrtUser::Take(api, api->PJRT_LoadedExecutable_Destroy(&program)).ok());
  }
}

}  // namespace
}  // namespace torus::tpu
