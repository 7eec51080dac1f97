#include "tpu/tensorflow/runtime/tpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tpu/tensorflow/runtime/testing.h"

namespace torus::tensorflow {
namespace {

using ::testing::HasSubstr;

using ProcessTpu = TpuTest;

TEST_F(ProcessTpu, IsMadeOnce) { EXPECT_EQ(*Tpu::Get(), *Tpu::Get()); }

TEST_F(ProcessTpu, HasTheCoresOfThisHostByOrdinal) {
  const auto* tpu = *Tpu::Get();
  ASSERT_EQ(tpu->devices().size(), static_cast<size_t>(fake_pjrt::kCores));
  for (int core = 0; core < fake_pjrt::kCores; ++core) {
    EXPECT_EQ(*tpu->device(core), tpu->devices()[core]);
    EXPECT_EQ(*tpu->DeviceId(core), fake_pjrt::kFirstId + core);
  }
}

TEST_F(ProcessTpu, RefusesACoreThatThisHostLacks) {
  const auto* tpu = *Tpu::Get();
  for (const int core : {-1, fake_pjrt::kCores}) {
    const auto device = tpu->device(core);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(device.error().message(), HasSubstr(fmt::format("core {}", core)));
    EXPECT_FALSE(tpu->DeviceId(core));
  }
}

TEST_F(ProcessTpu, TakesNoEventForOneThatIsReady) {
  Status ended(Code::kUnknown, "not called");
  (*Tpu::Get())->WhenReady(nullptr, [&](Status status) { ended = std::move(status); });
  EXPECT_TRUE(ended.ok());
}

}  // namespace
}  // namespace torus::tensorflow
