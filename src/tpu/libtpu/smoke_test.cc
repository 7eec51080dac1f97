// The real library on the real engine: a small program is compiled and run, at the PJRT seam.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tpu/pjrt/engine.h"
#include "tpu/testing/pjrt_user.h"

namespace torus::tpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kAxPlusOne[] = R"(
module @ax_plus_one {
  func.func public @main(%a: tensor<3xf32>, %x: tensor<3xf32>) -> tensor<3xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<3xf32>
    %product = stablehlo.multiply %a, %x : tensor<3xf32>
    %sum = stablehlo.add %product, %one : tensor<3xf32>
    return %sum : tensor<3xf32>
  }
})";

TEST(Libtpu, RunsAProgramAndKeepsItsAccount) {
  setenv("TORUS_PROGRAM_CACHE", "off", 1);
  const auto api = pjrt::Engine::Open(LIBTPU);
  ASSERT_TRUE(api) << api.error().ToString();
  const auto user = PjrtUser::Make(*api);
  ASSERT_TRUE(user) << user.error().ToString();
  EXPECT_EQ(user->devices().size(), 4u);  // a v4-8

  const auto broken = user->Compile("module { this is no program }");
  ASSERT_FALSE(broken);

  const auto program = user->Compile(kAxPlusOne);
  ASSERT_TRUE(program) << program.error().ToString();
  PJRT_Buffer* a = *user->FromHost({1, 2, 3});
  PJRT_Buffer* x = *user->FromHost({10, 20, 30});
  const auto outputs = user->Run(*program, {a, x}, 1);
  ASSERT_TRUE(outputs) << outputs.error().ToString();
  const auto sum = user->ToHost((*outputs)[0]);
  ASSERT_TRUE(sum) << sum.error().ToString();
  EXPECT_THAT(*sum, ElementsAre(11, 41, 91));

  EXPECT_EQ(user->MemoryStats()->bytes_in_use, 3 * 512);  // three floats take a tile
  for (PJRT_Buffer* buffer : {a, x, (*outputs)[0]}) EXPECT_TRUE(user->Destroy(buffer).ok());
  EXPECT_EQ(user->MemoryStats()->bytes_in_use, 0);
  EXPECT_TRUE(user->Destroy(*program).ok());
}

TEST(Libtpu, TakesTheShorterOptionsOfAnOlderFramework) {
  const auto user = PjrtUser::Make(*pjrt::Engine::Open(LIBTPU));
  ASSERT_TRUE(user) << user.error().ToString();
  PJRT_LoadedExecutable* program = *user->Compile(kAxPlusOne);
  PJRT_Buffer* a = *user->FromHost({1, 2, 3});
  const auto outputs = user->Run(program, {a, a}, 1, 80);  // torch_xla 2.9's
  ASSERT_TRUE(outputs) << outputs.error().ToString();
  EXPECT_THAT(*user->ToHost((*outputs)[0]), ElementsAre(2, 5, 10));
  EXPECT_TRUE(user->Destroy(a).ok());
  EXPECT_TRUE(user->Destroy((*outputs)[0]).ok());
  EXPECT_TRUE(user->Destroy(program).ok());
}

}  // namespace
}  // namespace torus::tpu
