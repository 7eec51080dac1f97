// What the software TPU shows of itself while it runs, over the fake engine, which runs words at
// once, and programs of HLO on threads of its own. That a real engine's runs count until they end,
// tests/libtpu/test_counters.py sees.
#include "tpu/device/run_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tpu/device/software_tpu.h"
#include "tpu/pjrt/engine.h"
#include "tpu/program/testing.h"
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

  void Open(const char* engine = FAKE_ENGINE) {
    const auto* api =
        MakeSoftwareTpu(pjrt::Engine::Open(engine),
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

// x + x, of as many numbers.
std::string Double(int64_t size) {
  const auto shape = program::ArrayShape(program::ElementType::kF32, {size});
  program::ModuleBuilder m;
  const int64_t x = m.Add("parameter", shape);
  m.Add("add", shape, {x, x});
  return program::WriteHlo(m.Build());
}

TEST_F(RunCounters, RunsOfManyThreadsCountWhileAnotherReads) {
  constexpr int kThreads = 4, kRuns = 100;
  user_.reset();
  Open(NEW_ENGINE);
  auto* const large = *user_->Compile(Double(4096), {}, "hlo");
  auto* const tiny = *user_->Compile(Double(8), {}, "hlo");
  std::atomic<bool> done = false;
  std::jthread reader([&] {
    while (!done) EXPECT_LE(Read().devices[0].runs, 2 * kThreads * kRuns);
  });
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2 * kRuns; ++i) {
        auto* const argument = *user_->FromHost(std::vector<float>(i % 2 == 0 ? 4096 : 8, 1.0F));
        const auto outputs = user_->Run(i % 2 == 0 ? large : tiny, {argument}, 1);
        ASSERT_TRUE(outputs) << outputs.error().ToString();
        EXPECT_EQ((*user_->ToHost((*outputs)[0]))[7], 2);
        EXPECT_TRUE(user_->Destroy(argument).ok());
        EXPECT_TRUE(user_->Destroy((*outputs)[0]).ok());
      }
    });
  }
  threads.clear();
  while (Read().devices[0].running > 0) std::this_thread::yield();  // an output is ready first
  done = true;
  // One of a tiny program is lost where threads meet.
  EXPECT_GE(Read().devices[0].runs, kThreads * kRuns);
  EXPECT_EQ(Read().devices[0].hbm_in_use, 0);
  EXPECT_TRUE(user_->Destroy(large).ok());
  EXPECT_TRUE(user_->Destroy(tiny).ok());
}

}  // namespace
}  // namespace torus::tpu
