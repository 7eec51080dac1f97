#include "service/backend/local/worker_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/file.h"

namespace torus::backend {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using ::testing::HasSubstr;

class WorkerProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/torus-worker-process-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(folder_).ok()); }

  // Workers that run this script.
  WorkerProcess Workers(const std::string& script) const {
    const std::string path = folder_ + "/program";
    EXPECT_TRUE(
        WriteFile(path, "#!/bin/sh\necho x >>" + folder_ + "/count\n" + script, {.mode = 0755})
            .ok());
    return WorkerProcess(folder_ + "/vms", folder_ + "/socket", path);
  }
  int Count() const {
    const auto text = ReadFile(folder_ + "/count");
    return text ? static_cast<int>(std::ranges::count(*text, 'x')) : 0;
  }
  std::string folder_;
};

TEST_F(WorkerProcessTest, AQuickFailureIsToldAtOnce) {
  const WorkerProcess workers = Workers("echo no such luck >&2; exit 3\n");
  for (int i = 1; i <= 2; ++i) {
    const Status started = workers.Start("u", 0);
    EXPECT_EQ(started.code(), Code::kInvalidArgument) << "the exit status is a canonical code";
    EXPECT_THAT(started.message(), HasSubstr("no such luck"));
    EXPECT_EQ(Count(), i) << "each call tries afresh";
  }
}

TEST_F(WorkerProcessTest, ASlowStartHoldsNobodyUpAndItsErrorComesLater) {
  const WorkerProcess workers = Workers("sleep 1; echo no such luck >&2; exit 3\n");
  const auto begin = Clock::now();
  EXPECT_TRUE(workers.Start("u", 0).ok());
  EXPECT_LT(Clock::now() - begin, 3 * WorkerProcess::kStartWait);
  const auto again = Clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(workers.Start("u", 0).ok());
  EXPECT_LT(Clock::now() - again, WorkerProcess::kStartWait) << "it is being started";
  EXPECT_EQ(Count(), 1);
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_THAT(workers.Start("u", 0).message(), HasSubstr("no such luck"));
  EXPECT_EQ(Count(), 1);
}

TEST_F(WorkerProcessTest, AfterASlowStartAWorkerThatHasEndedIsStartedAnew) {
  const WorkerProcess workers = Workers("sleep 0.3\n");
  EXPECT_TRUE(workers.Start("u", 0).ok());
  std::this_thread::sleep_for(milliseconds(800));
  EXPECT_TRUE(workers.Start("u", 0).ok());
  std::this_thread::sleep_for(milliseconds(800));
  EXPECT_EQ(Count(), 2);
}

TEST_F(WorkerProcessTest, OneVmsStartIsNotAnothers) {
  const WorkerProcess workers = Workers("sleep 0.3\n");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(workers.Start("u", i).ok());
  EXPECT_EQ(Count(), 3);
}

TEST_F(WorkerProcessTest, AStopEndsARemoval) {
  const WorkerProcess workers = Workers("exec sleep 100\n");
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(100));
    source.request_stop();
  });
  EXPECT_EQ(workers.RemoveLeftovers("u", 0, source.get_token()).code(), Code::kCancelled);
}

}  // namespace
}  // namespace torus::backend
