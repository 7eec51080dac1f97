// Programs of several replicas, run one replica at a time as PyTorch/XLA does, on the real engine.
// That they meet between processes, too, tests/libtpu/test_torch.py shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tpu/pjrt/engine.h"
#include "tpu/testing/pjrt_user.h"

namespace torus::tpu {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// CompileOptionsProto{executable_build_options{num_replicas: 4 num_partitions: 1}}.
constexpr std::string_view kFourReplicas("\x1a\x04\x20\x04\x28\x01", 6);
constexpr int kSteps = 5;

constexpr char kDouble[] = R"(
module @double {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %sum = stablehlo.add %x, %x : tensor<2xf32>
    return %sum : tensor<2xf32>
  }
})";

constexpr char kSumOfAll[] = R"(
module @sum_of_all attributes {mhlo.num_replicas = 4 : i32} {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %sum = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2xf32>) -> tensor<2xf32>
    return %sum : tensor<2xf32>
  }
})";

// Of the v4-8 that is there where nothing is said.
Result<PjrtUser> MakeUser() {
  TORUS_ASSIGN_OR_RETURN(const PJRT_Api* api, pjrt::Engine::Open(LIBTPU));
  return PjrtUser::Make(api, 0, "PyTorch/XLA");
}

// Feeds the program its own output on the device, some times; destroys what it made.
Result<std::vector<float>> RunSteps(const PjrtUser& user, PJRT_LoadedExecutable* program,
                                    int device, std::vector<float> values) {
  TORUS_ASSIGN_OR_RETURN(PJRT_Buffer * buffer, user.FromHost(values, device));
  for (int step = 0; step < kSteps; ++step) {
    TORUS_ASSIGN_OR_RETURN(const auto outputs,
                           user.RunOn(user.devices()[device], program, {buffer}, 1));
    TORUS_RETURN_IF_ERROR(user.Destroy(std::exchange(buffer, outputs[0])));
  }
  auto result = user.ToHost(buffer);
  TORUS_RETURN_IF_ERROR(user.Destroy(buffer));
  return result;
}

TEST(Replicas, OneRunsWithoutTheOthers) {
  const auto user = MakeUser();
  ASSERT_TRUE(user) << user.error().ToString();
  const auto program = user->Compile(kDouble, kFourReplicas);
  ASSERT_TRUE(program) << program.error().ToString();
  for (const int device : {0, 3, 0}) {
    const auto values = RunSteps(*user, *program, device, {1, 2});
    ASSERT_TRUE(values) << values.error().ToString();
    EXPECT_THAT(*values, ElementsAre(32, 64));
    EXPECT_EQ(user->MemoryStats(device)->bytes_in_use, 0);
  }
  EXPECT_TRUE(user->Destroy(*program).ok());
}

TEST(Replicas, OfThreadsMeetInTheirCollectives) {
  const auto user = MakeUser();
  ASSERT_TRUE(user) << user.error().ToString();
  std::vector<std::vector<float>> results(4);
  {
    std::vector<std::jthread> threads;
    for (int device = 0; device < 4; ++device) {
      threads.emplace_back([&, device] {
        const auto program = user->Compile(kSumOfAll, kFourReplicas);  // each its own, of one text
        if (!program) return;
        const auto mine = static_cast<float>(device);
        auto values = RunSteps(*user, *program, device, {mine, 1});
        if (values) results[device] = *std::move(values);
        EXPECT_TRUE(user->Destroy(*program).ok());
      });
    }
  }
  EXPECT_THAT(results, Each(ElementsAre(6 * 256, 4 * 256)));  // (0+1+2+3) 4^4, 4^5
}

// As xm.all_gather has it: each replica puts its own number into a place of its own.
std::string OwnPlace(int replica) {
  return fmt::format(R"(
module @own_place attributes {{mhlo.num_replicas = 4 : i32}} {{
  func.func public @main(%x: tensor<1xf32>) -> tensor<4xf32> {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %wide = stablehlo.pad %x, %zero, low = [{}], high = [{}], interior = [0]
      : (tensor<1xf32>, tensor<f32>) -> tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%wide) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }}) {{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}} : (tensor<4xf32>) -> tensor<4xf32>
    return %sum : tensor<4xf32>
  }}
}})",
                     replica, 3 - replica);
}

TEST(Replicas, OfDifferentProgramsMeet) {
  const auto user = MakeUser();
  ASSERT_TRUE(user) << user.error().ToString();
  std::vector<std::vector<float>> results(4);
  {
    std::vector<std::jthread> threads;
    for (int device = 0; device < 4; ++device) {
      threads.emplace_back([&, device] {
        const auto program = user->Compile(OwnPlace(device), kFourReplicas);
        ASSERT_TRUE(program) << program.error().ToString();
        const auto buffer = user->FromHost({static_cast<float>(device + 1)}, device);
        ASSERT_TRUE(buffer);
        const auto outputs = user->RunOn(user->devices()[device], *program, {*buffer}, 1);
        ASSERT_TRUE(outputs) << outputs.error().ToString();
        if (auto values = user->ToHost(outputs->front())) results[device] = *std::move(values);
      });
    }
  }
  EXPECT_THAT(results, Each(ElementsAre(1, 2, 3, 4)));
}

TEST(Replicas, ARunDoesNotKeepItsCallersThread) {
  const auto user = MakeUser();
  ASSERT_TRUE(user) << user.error().ToString();
  const auto program = user->Compile(kSumOfAll, kFourReplicas);
  ASSERT_TRUE(program) << program.error().ToString();
  std::vector<PJRT_Buffer*> sums;
  for (int device = 0; device < 4; ++device) {  // one thread for all
    const auto buffer = user->FromHost({1, 2}, device);
    ASSERT_TRUE(buffer);
    const auto outputs = user->RunOn(user->devices()[device], *program, {*buffer}, 1);
    ASSERT_TRUE(outputs) << outputs.error().ToString();
    sums.push_back(outputs->front());
  }
  for (PJRT_Buffer* sum : sums) EXPECT_THAT(*user->ToHost(sum), ElementsAre(4, 8));
}

}  // namespace
}  // namespace torus::tpu
