#include "tpu/pjrt/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tpu/pjrt/error.h"

namespace torus::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const PJRT_Api* Fake() {
  static const PJRT_Api* const api = *Engine::Open(FAKE_ENGINE);
  return api;
}

struct BadEngine {
  const char* file;
  const char* lacks;
};
class BadEngines : public ::testing::TestWithParam<BadEngine> {};

TEST_P(BadEngines, AreNamedWithWhatTheyLackAndHowToGetOne) {
  const auto api = Engine::Open(GetParam().file);
  ASSERT_FALSE(api);
  EXPECT_EQ(api.error().code(), Code::kFailedPrecondition);
  EXPECT_THAT(api.error().message(),
              AllOf(HasSubstr(GetParam().file), HasSubstr(GetParam().lacks),
                    HasSubstr("scripts/deps.sh"), HasSubstr("TORUS_ENGINE")));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadEngines,
    ::testing::Values(BadEngine{"/no/such/engine.so", "no such file"},
                      BadEngine{"/etc/passwd", "invalid ELF header"},
                      BadEngine{"/etc", "directory"}, BadEngine{"/dev/null", "file too short"},
                      BadEngine{NO_PLUGIN, "no symbol GetPjrtApi"},
                      BadEngine{OLD_ENGINE, "PJRT C API 0.50, and 0.81 or newer is needed"}));

TEST(Engine, WithoutAnEngineEveryCallAnswersWhy) {
  Engine engine(Error(Status(Code::kFailedPrecondition, "no engine, because")));
  EXPECT_EQ(engine.api(), nullptr);
  auto args = MakeArgs<PJRT_Client_Devices_Args>();
  const Status status = engine.Take(engine.Call(kClient_Devices, &args));
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message(), "no engine, because");
}

TEST(Engine, NamesAFunctionThatTheEngineLacks) {
  Engine engine(Fake());
  auto args = MakeArgs<PJRT_Event_Await_Args>();
  const Status null_entry = engine.Take(engine.Call(kEvent_Await, &args));
  EXPECT_EQ(null_entry.code(), Code::kUnimplemented);
  EXPECT_THAT(null_entry.message(), HasSubstr("PJRT_Event_Await"));
  const Status beyond_the_table = engine.Take(engine.Call(kEvent_Create, &args));
  EXPECT_EQ(beyond_the_table.code(), Code::kUnimplemented);
  EXPECT_THAT(beyond_the_table.message(), HasSubstr("PJRT_Event_Create"));
}

PJRT_Client* MakeClient(Engine& engine) {
  auto create = MakeArgs<PJRT_Client_Create_Args>();
  EXPECT_TRUE(engine.Take(engine.Call(kClient_Create, &create)).ok());
  return create.client;
}

TEST(Engine, WidensAStructThatTheEngineFindsTooShort) {
  Engine engine(Fake());
  auto devices = MakeArgs<PJRT_Client_Devices_Args>();
  devices.client = MakeClient(engine);
  ASSERT_TRUE(engine.Take(engine.Call(kClient_Devices, &devices)).ok());
  for (int twice = 0; twice < 2; ++twice) {  // first it is refused, then it is known
    auto args = MakeArgs<PJRT_Device_LocalHardwareId_Args>();
    args.device = devices.devices[0];
    args.local_hardware_id = -1;
    EXPECT_TRUE(engine.Take(engine.Call(kDevice_LocalHardwareId, &args)).ok());
    EXPECT_EQ(args.local_hardware_id, 0);
    EXPECT_EQ(args.struct_size, sizeof(args));
  }
  auto destroy = MakeArgs<PJRT_Client_Destroy_Args>();
  destroy.client = devices.client;
  EXPECT_TRUE(engine.Take(engine.Call(kClient_Destroy, &destroy)).ok());
}

TEST(Engine, ErrorsOfBothMakersAreReadAndFreedAlike) {
  Engine engine(Fake());
  auto args = MakeArgs<PJRT_Client_Compile_Args>();
  auto program = MakeArgs<PJRT_Program>();
  char code[] = "fail";
  program.code = code;
  program.code_size = 4;
  args.program = &program;
  args.client = MakeClient(engine);
  PJRT_Error* theirs = engine.Call(kClient_Compile, &args);
  PJRT_Error* ours = NewError(Status(Code::kOutOfRange, "ours"));
  EXPECT_EQ(FindOwnError(theirs), nullptr);
  EXPECT_NE(FindOwnError(ours), nullptr);
  EXPECT_EQ(engine.Take(theirs).ToString(), "INVALID_ARGUMENT: the fake cannot compile it");
  EXPECT_EQ(engine.Take(ours).ToString(), "OUT_OF_RANGE: ours");
  EXPECT_EQ(FindOwnError(ours), nullptr);
  auto destroy = MakeArgs<PJRT_Client_Destroy_Args>();
  destroy.client = args.client;
  EXPECT_TRUE(engine.Take(engine.Call(kClient_Destroy, &destroy)).ok());
}

TEST(Engine, AnErrorOfOursHasNoPayload) {
  Engine engine(Fake());
  ErrorForEachPayloadArgs args{sizeof(args), nullptr, NewError(Status(Code::kAborted, "ours"))};
  EXPECT_EQ(engine.ForEachPayload(&args), nullptr);
  engine.Take(const_cast<PJRT_Error*>(args.error)).ok();
}

TEST(Ample, CopiesNoMoreThanTheCallerHas) {
  struct {
    PJRT_ExecuteOptions options;
    char behind = 'x';
  } caller;
  caller.options = MakeArgs<PJRT_ExecuteOptions>();
  caller.options.struct_size = offsetof(PJRT_ExecuteOptions, context);
  caller.options.launch_id = 7;
  caller.options.num_tasks = 9;  // beyond what the caller says it has
  Ample<PJRT_ExecuteOptions> ample(&caller.options);
  EXPECT_EQ(ample->launch_id, 7);
  EXPECT_EQ(ample->num_tasks, 0u);
  EXPECT_EQ(ample->struct_size, kAmpleSize);
}

TEST(FunctionName, IsTheHeaders) {
  EXPECT_STREQ(FunctionName(kError_Destroy), "PJRT_Error_Destroy");
  EXPECT_STREQ(FunctionName(kClient_CreateErrorBuffer), "PJRT_Client_CreateErrorBuffer");
  EXPECT_STREQ(FunctionName(kSlots - 1), "PJRT_TopologyDescription_GetMemorySpaceKindIds");
}

}  // namespace
}  // namespace torus::pjrt
