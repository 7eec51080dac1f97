#include "tpu/tensorflow/runtime/callbacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>

#include "tpu/tensorflow/runtime/testing.h"

namespace torus::tensorflow {
namespace {

// Each waits for the others, so it takes as many threads as there are callbacks.
TEST(Callbacks, MayWaitForOneAnother) {
  constexpr int kCallbacks = 30;
  auto meeting = std::make_shared<std::latch>(kCallbacks);
  auto met = std::make_shared<std::promise<void>>();
  for (int i = 0; i < kCallbacks; ++i)
    CallBack([meeting, met, i] {
      meeting->arrive_and_wait();
      if (i == 0) met->set_value();
    });
  EXPECT_EQ(met->get_future().wait_for(kSoon), std::future_status::ready);
}

TEST(Callbacks, MayCallBack) {
  const auto called = std::make_shared<std::promise<void>>();
  CallBack([called] { CallBack([called] { called->set_value(); }); });
  EXPECT_EQ(called->get_future().wait_for(kSoon), std::future_status::ready);
}

TEST(Callbacks, AreLetGoOfOnceTheyHaveRun) {
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> watched = held;
  CallBack([held = std::move(held)] {});
  for (int i = 0; i < 2000 && !watched.expired(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(watched.expired());
}

TEST(Callbacks, RunOnceEachFromManyThreads) {
  constexpr int kThreads = 4, kEach = 100;
  const auto left = std::make_shared<std::atomic<int>>(kThreads * kEach);
  const auto done = std::make_shared<std::promise<void>>();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([=] {
        for (int each = 0; each < kEach; ++each)
          CallBack([=] {
            if (--*left == 0) done->set_value();
          });
      });
  }
  EXPECT_EQ(done->get_future().wait_for(kSoon), std::future_status::ready);
}

}  // namespace
}  // namespace torus::tensorflow
