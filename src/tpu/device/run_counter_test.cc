// What the software TPU shows of itself while it runs, over the fake engine, which runs everything
// at once. That a real engine's runs count until they end, tests/libtpu/test_counters.py sees.
#include "tpu/device/run_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tpu/device/software_tpu.h"
#include "tpu/pjrt/engine.h"
#include "tpu/testing/pjrt_user.h"

namespace torus::tpu {
namespace {

namespace fs = std::filesystem;

class RunCounters : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/torus-run-counter-test-XXXXXX";
    folder_ = mkdtemp(name);
    Open();
  }
  void TearDown() override {
    user_.reset();
    EXPECT_TRUE(fs::is_empty(folder_)) << "the page goes with the client";
    fs::remove_all(folder_);
  }

  void Open() {
    const auto* api =
        MakeSoftwareTpu(pjrt::Engine::Open(FAKE_ENGINE),
                        {.version = "1.2.3",
                         .slice_source = [] { return SliceSource{.accelerator_type = "v2-8"}; },
                         .counters_folder = [this] { return folder_; },
                         .host = {"/none", "/none"}});
    user_ = std::make_unique<PjrtUser>(*PjrtUser::Make(api));
  }

  slice::PageReading Read() {
    const auto entry = fs::directory_iterator(folder_);
    std::ifstream file(entry->path());
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    return *slice::ParsePage(bytes, slice::CountersNow());
  }

  std::string folder_;
  std::unique_ptr<PjrtUser> user_;
};

TEST_F(RunCounters, ThePageShowsTheSlice) {
  const auto page = Read();
  EXPECT_EQ(page.accelerator_type, "v2-8");
  EXPECT_EQ(page.devices_per_chip, 2);
  EXPECT_EQ(page.duty_cycles_per_chip, 1);
  ASSERT_EQ(page.devices.size(), 8u);
  EXPECT_EQ(page.devices[5].chip, 2);
  EXPECT_EQ(page.devices[5].core, 1);
  EXPECT_EQ(page.devices[5].hbm_total, (int64_t{748} << 30) / 100);
}

TEST_F(RunCounters, ThePageShowsWhatBuffersHold) {
  auto* const buffer = *user_->FromHost(std::vector<float>(1 << 20));
  EXPECT_EQ(Read().devices[0].hbm_in_use, 4 << 20);
  EXPECT_TRUE(user_->Destroy(buffer).ok());
  EXPECT_EQ(Read().devices[0].hbm_in_use, 0);
  EXPECT_EQ(Read().devices[0].hbm_peak, 4 << 20);
}

TEST_F(RunCounters, ARunCountsOnItsDevices) {
  auto* const argument = *user_->FromHost({1, 2, 3, 4});
  auto* const program = *user_->Compile("outputs=1");
  for (int i = 0; i < 3; ++i) {
    const auto outputs = user_->Run(program, {argument}, 1);
    ASSERT_TRUE(outputs.has_value()) << outputs.error().message();
    EXPECT_TRUE(user_->Destroy((*outputs)[0]).ok());
  }
  EXPECT_TRUE(user_->Destroy(argument).ok());
  EXPECT_TRUE(user_->Destroy(program).ok());
  const auto page = Read();
  EXPECT_EQ(page.compiles, 1);
  EXPECT_EQ(page.devices[0].runs, 3);
  EXPECT_EQ(page.devices[0].running, 0);
  EXPECT_GT(page.devices[0].run_time, 0);
  EXPECT_EQ(page.devices[1].runs, 0);
}

}  // namespace
}  // namespace torus::tpu
