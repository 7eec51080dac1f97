#include "tpu/tensorflow/runtime/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <thread>
#include <vector>

#include "tpu/tensorflow/runtime/testing.h"

namespace torus::tensorflow {
namespace {

using ::testing::ElementsAre;

TEST(Stream, CallsBackAtOnceWhereThereIsNothingBefore) {
  const auto stream = Stream::Make();
  std::promise<void> called;
  stream->Then([&] { return called.set_value(), Status(); });
  EXPECT_TRUE(stream->Wait().ok());
  EXPECT_TRUE(Has(called.get_future()));
}

TEST(Stream, CallsBackAfterAllBeforeItAlsoWhereThatEndsInAnotherOrder) {
  const auto stream = Stream::Make();
  const auto first = stream->Begin(), second = stream->Begin();
  std::promise<void> called;
  const auto future = called.get_future();
  stream->Then([&] { return called.set_value(), Status(); });
  second(Status());
  EXPECT_EQ(future.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  first(Status());
  EXPECT_EQ(future.wait_for(kSoon), std::future_status::ready);
  EXPECT_TRUE(stream->Wait().ok());
}

TEST(Stream, DoesNotWaitForWhatComesAfterACallback) {
  const auto stream = Stream::Make();
  std::promise<void> called;
  stream->Then([&] { return called.set_value(), Status(); });
  const auto later = stream->Begin();
  EXPECT_EQ(called.get_future().wait_for(kSoon), std::future_status::ready);
  later(Status());
  EXPECT_TRUE(stream->Wait().ok());
}

TEST(Stream, HoldsUpWhatComesAfterACallbackUntilItReturns) {
  const auto stream = Stream::Make();
  std::latch blocked(1);
  std::vector<int> calls;
  stream->Then([&] { return blocked.wait(), calls.push_back(1), Status(); });
  const auto mark = stream->Mark();
  stream->Then([&] { return calls.push_back(2), Status(); });
  EXPECT_FALSE(mark->completed());
  blocked.count_down();
  EXPECT_TRUE(stream->Wait().ok());
  EXPECT_TRUE(mark->completed());
  EXPECT_THAT(calls, ElementsAre(1, 2));
}

TEST(Stream, CallsBackOnAnotherThreadThanTheOneThatEndedTheWork) {
  const auto stream = Stream::Make();
  const auto ended = stream->Begin();
  std::thread::id caller;
  stream->Then([&] { return caller = std::this_thread::get_id(), Status(); });
  ended(Status());
  EXPECT_TRUE(stream->Wait().ok());
  EXPECT_NE(caller, std::thread::id());
  EXPECT_NE(caller, std::this_thread::get_id());
}

TEST(Stream, ACallbackThatBlocksDoesNotHoldUpAnotherStreams) {
  std::latch blocked(1);
  const auto blocking = Stream::Make();
  blocking->Then([&] { return blocked.wait(), Status(); });
  std::vector<std::shared_ptr<Stream>> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(Stream::Make());
    others.back()->Then([&] { return blocked.wait(), Status(); });
  }
  const auto last = Stream::Make();
  last->Then([] { return Status(); });
  EXPECT_TRUE(EndsSoon(*last));
  blocked.count_down();
  EXPECT_TRUE(blocking->Wait().ok());
  for (const auto& other : others) EXPECT_TRUE(other->Wait().ok());
}

TEST(Stream, ACallbackMayPutMoreOnItsStream) {
  const auto stream = Stream::Make();
  std::promise<void> inner;
  stream->Then([&] {
    stream->Then([&] { return inner.set_value(), Status(); });
    return Status();
  });
  EXPECT_EQ(inner.get_future().wait_for(kSoon), std::future_status::ready);
}

TEST(Stream, AnErrorReachesWaitOnce) {
  const auto stream = Stream::Make();
  const auto first = stream->Begin(), second = stream->Begin();
  second(Status(Code::kInternal, "the first to end"));
  first(Status(Code::kAborted, "the second"));
  EXPECT_EQ(stream->status().message(), "the first to end");
  EXPECT_EQ(stream->Wait(), Status(Code::kInternal, "the first to end"));
  EXPECT_TRUE(stream->status().ok());
  EXPECT_TRUE(stream->Wait().ok());
}

TEST(Stream, HasTheErrorOfACallback) {
  const auto stream = Stream::Make();
  stream->Then([] { return Status(Code::kCancelled, "not any more"); });
  EXPECT_EQ(stream->Wait(), Status(Code::kCancelled, "not any more"));
}

TEST(Stream, CallsBackAfterAnErrorToo) {
  const auto stream = Stream::Make();
  stream->Begin()(Status(Code::kInternal, "broken"));
  bool called = false;
  stream->Then([&] { return called = true, Status(); });
  EXPECT_FALSE(stream->Wait().ok());
  EXPECT_TRUE(called);
}

TEST(Stream, WaitsForWhatIsMarkedOnAnother) {
  const auto one = Stream::Make(), other = Stream::Make();
  const auto ended = one->Begin();
  other->Await(one->Mark());
  std::atomic<bool> called = false;
  other->Then([&] { return called = true, Status(); });
  const auto later = one->Begin();  // is not waited for
  EXPECT_FALSE(called);
  ended(Status());
  EXPECT_TRUE(other->Wait().ok());
  EXPECT_TRUE(called);
  later(Status());
  EXPECT_TRUE(one->Wait().ok());
}

TEST(Stream, DoesNotTakeTheErrorsOfOneThatItWaitsFor) {
  const auto one = Stream::Make(), other = Stream::Make();
  const auto ended = one->Begin();
  other->Await(one->Mark());
  ended(Status(Code::kInternal, "mine"));
  EXPECT_TRUE(other->Wait().ok());
  EXPECT_EQ(one->Wait().message(), "mine");
}

TEST(Stream, MayWaitForItself) {
  const auto stream = Stream::Make();
  const auto ended = stream->Begin();
  stream->Await(stream->Mark());
  ended(Status());
  EXPECT_TRUE(EndsSoon(*stream));
}

TEST(Stream, IsWaitedForByManyThreads) {
  constexpr int kThreads = 8;
  const auto stream = Stream::Make();
  const auto ended = stream->Begin();
  std::atomic<int> errors = 0;
  std::latch waiting(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        waiting.count_down();
        if (!stream->Wait().ok()) ++errors;
      });
    waiting.wait();
    ended(Status(Code::kInternal, "for one of them"));
  }
  EXPECT_EQ(errors, 1);
}

TEST(Stream, LivesUntilItsWorkHasEnded) {
  auto stream = Stream::Make();
  const std::weak_ptr<Stream> watched = stream;
  auto ended = stream->Begin();
  std::promise<void> called;
  stream->Then([&] { return called.set_value(), Status(); });
  stream = nullptr;
  ended(Status());
  ended = nullptr;
  EXPECT_EQ(called.get_future().wait_for(kSoon), std::future_status::ready);
  for (int i = 0; i < 2000 && !watched.expired(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(watched.expired());
}

// Work that ends on its threads, callbacks, marks, and a second stream that waits for the first.
TEST(Stream, KeepsItsOrderUnderManyThreads) {
  constexpr int kRounds = 200;
  const auto one = Stream::Make(), other = Stream::Make();
  int on_one = 0, on_other = 0;  // no lock: the streams order who touches them
  bool ordered = true;
  std::vector<std::function<void(Status)>> works;
  for (int round = 0; round < kRounds; ++round) {
    works.push_back(one->Begin());
    works.push_back(one->Begin());
    one->Then([&, round] { return ordered &= on_one++ == round, Status(); });
    other->Await(one->Mark());
    other->Then([&, round] { return ordered &= on_other++ == round, Status(); });
    one->Await(other->Mark());
  }
  {
    std::vector<std::jthread> threads;
    std::atomic<size_t> next = works.size();
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (size_t at; (at = next--) > 0 && at <= works.size();) works[at - 1](Status());
      });
  }
  ASSERT_TRUE(EndsSoon(*one));
  ASSERT_TRUE(EndsSoon(*other));
  EXPECT_TRUE(ordered);
  EXPECT_EQ(on_one, kRounds);
  EXPECT_EQ(on_other, kRounds);
}

TEST(Completion, CallsWhoCameBeforeAndWhoComesAfter) {
  Completion completion;
  int calls = 0;
  completion.WhenCompleted([&] { ++calls; });
  EXPECT_FALSE(completion.completed());
  EXPECT_EQ(calls, 0);
  completion.Complete();
  EXPECT_TRUE(completion.completed());
  completion.WhenCompleted([&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace torus::tensorflow
