#include "service/controller/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace torus::controller {
namespace {

using namespace std::chrono_literals;

TEST(WorkQueue, IsSerialForAKeyAndParallelAcrossKeys) {
  std::promise<void> both_running;
  std::atomic<int> inside_a = 0, running = 0, runs_of_a = 0;
  std::atomic<bool> overlapped = false, released = false;
  {
    WorkQueue queue(4, [&](const std::string& key) -> std::optional<WorkQueue::Clock::duration> {
      if (key == "a" && ++inside_a > 1) overlapped = true;
      if (++running == 2 && !released.exchange(true)) both_running.set_value();
      std::this_thread::sleep_for(30ms);
      --running;
      if (key == "a") {
        --inside_a;
        ++runs_of_a;
      }
      return std::nullopt;
    });
    queue.Add("a");
    queue.Add("b");
    EXPECT_EQ(both_running.get_future().wait_for(5s), std::future_status::ready);
    for (int i = 0; i < 10; ++i) queue.Add("a");
    for (int i = 0; i < 500 && runs_of_a < 2; ++i) std::this_thread::sleep_for(10ms);
  }
  EXPECT_FALSE(overlapped);
  EXPECT_EQ(runs_of_a, 2) << "what was added while it ran is run once more";
}

TEST(WorkQueue, RunsAgainWhenTheWorkAsksForIt) {
  std::atomic<int> runs = 0;
  WorkQueue queue(1, [&](const std::string&) -> std::optional<WorkQueue::Clock::duration> {
    return ++runs < 3 ? std::optional<WorkQueue::Clock::duration>(1ms) : std::nullopt;
  });
  queue.Add("a");
  for (int i = 0; i < 500 && runs < 3; ++i) std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(runs, 3);
}

TEST(WorkQueue, TheEarliestTimeWins) {
  std::promise<void> ran;
  WorkQueue queue(1, [&](const std::string&) -> std::optional<WorkQueue::Clock::duration> {
    ran.set_value();
    return std::nullopt;
  });
  queue.AddAt("a", WorkQueue::Clock::now() + 1h);
  queue.Add("a");
  EXPECT_EQ(ran.get_future().wait_for(5s), std::future_status::ready);
}

}  // namespace
}  // namespace torus::controller
