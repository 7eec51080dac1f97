#include "tpu/device/meetings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "tpu/device/peers.h"

namespace torus::tpu {
namespace {

using program::CollectiveKind;
using program::Reduction;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A device's number, to be summed over its group.
struct Sum {
  Part Of(int64_t device, MeetingKey key = {}, std::vector<std::vector<int64_t>> groups = {}) {
    value = static_cast<float>(device + 1);
    Part part{.key = key,
              .collective = {.reduction = Reduction::kAdd, .groups = std::move(groups)},
              .member = {.replica = device,
                         .operands = {{program::ElementType::kF32,
                                       {},
                                       reinterpret_cast<const char*>(&value)}},
                         .results = {std::span(reinterpret_cast<char*>(&sum), sizeof(sum))}},
              .done = {}};
    part.done = [this](const Status& status) { outcome.set_value(status); };
    return part;
  }
  Status Wait() { return outcome.get_future().get(); }

  float value = 0, sum = 0;
  std::promise<Status> outcome;
};

TEST(Meetings, PartsOfOneKeyMeet) {
  const auto meetings = std::make_shared<Meetings>(2);
  Sum a, b, ahead, behind;
  meetings->Join(a.Of(0));
  meetings->Join(ahead.Of(0, {.launch = 1}));  // it need not wait
  meetings->Join(b.Of(1));
  meetings->Join(behind.Of(1, {.launch = 1}));
  for (Sum* sum : {&a, &b, &ahead, &behind}) {
    EXPECT_TRUE(sum->Wait().ok());
    EXPECT_EQ(sum->sum, 3);
  }
}

TEST(Meetings, GroupsMeetApart) {
  const auto meetings = std::make_shared<Meetings>(4);
  std::vector<Sum> sums(4);
  for (int64_t device = 0; device < 4; ++device) {
    meetings->Join(sums[device].Of(device, {}, {{0, 2}, {1, 3}}));
  }
  for (size_t device = 0; device < 4; ++device) {
    EXPECT_TRUE(sums[device].Wait().ok());
    EXPECT_EQ(sums[device].sum, device % 2 == 0 ? 4 : 6);
  }
}

TEST(Meetings, DifferentCollectivesDoNotMeet) {
  const auto meetings = std::make_shared<Meetings>(2);
  Sum sum, other;
  Part product = other.Of(1);
  product.collective.reduction = Reduction::kMultiply;
  meetings->Join(sum.Of(0));
  meetings->Join(std::move(product));
  EXPECT_THAT(sum.Wait().message(), HasSubstr("Devices 0 and 1 meet in different collectives"));
  EXPECT_EQ(other.Wait().code(), Code::kInvalidArgument);
}

TEST(Meetings, ADeviceThatIsInNoGroupIsTold) {
  const auto meetings = std::make_shared<Meetings>(2);
  Sum outside, wrong, unknown;
  meetings->Join(outside.Of(1, {}, {{0}}));
  EXPECT_THAT(outside.Wait().message(), HasSubstr("Device 1 is in no group"));
  meetings->Join(wrong.Of(0, {}, {{0, 5}}));
  EXPECT_THAT(wrong.Wait().message(), HasSubstr("the group [0, 5]"));
  meetings->Join(unknown.Of(2));
  EXPECT_EQ(unknown.Wait().code(), Code::kInvalidArgument);
}

TEST(Meetings, WhoWaitsTooLongIsToldForWhom) {
  const auto meetings =
      std::make_shared<Meetings>(3, Meetings::Patience{.warning = seconds(0), .limit = seconds(1)});
  Sum a, b;
  ::testing::internal::CaptureStderr();
  meetings->Join(a.Of(0));
  meetings->Join(b.Of(2));
  for (Sum* sum : {&a, &b}) {
    const Status late = sum->Wait();
    EXPECT_EQ(late.code(), Code::kDeadlineExceeded);
    EXPECT_THAT(late.message(),
                AllOf(HasSubstr("[0, 2] have waited"), HasSubstr("for devices [1]")));
  }
  ::testing::internal::GetCapturedStderr();
}

TEST(Meetings, WhatIsLostFailsNowAndLater) {
  const auto meetings = std::make_shared<Meetings>(3);
  Sum waits, later, others[2];
  meetings->Join(waits.Of(0));
  meetings->Lose({1}, Unavailable("it has ended"));
  EXPECT_EQ(waits.Wait().code(), Code::kUnavailable);
  meetings->Join(later.Of(2, {.launch = 1}));
  EXPECT_EQ(later.Wait().message(), "it has ended");
  meetings->Join(others[0].Of(0, {.launch = 2}, {{0, 2}}));  // without the lost one
  meetings->Join(others[1].Of(2, {.launch = 2}, {{0, 2}}));
  EXPECT_TRUE(others[0].Wait().ok() && others[1].Wait().ok());
}

// ---- Between processes

PeerOptions Options(int own, const char* name) {
  return {.address = std::string(name) + std::to_string(getpid()),
          .build = "a build",
          .own = own,
          .devices = {{0, 1}, {2}, {3}},
          .patience = seconds(20)};
}

TEST(Peers, MeetInProcessZero) {
  std::vector<Sum> sums(4);
  std::vector<std::jthread> processes;
  for (int own = 0; own < 3; ++own) {
    processes.emplace_back([&sums, own] {
      const PeerOptions options = Options(own, "sums");
      const auto place = JoinPeers(options);
      ASSERT_TRUE(place) << place.error().ToString();
      for (const int64_t device : options.devices[own]) (*place)->Join(sums[device].Of(device));
      for (const int64_t device : options.devices[own]) EXPECT_TRUE(sums[device].Wait().ok());
    });
  }
  processes.clear();
  for (const Sum& sum : sums) EXPECT_EQ(sum.sum, 10);
}

TEST(Peers, OneThatEndsIsTold) {
  Sum waits, later;
  std::vector<std::jthread> processes;
  processes.emplace_back([&] {
    const auto place = JoinPeers(Options(0, "ends"));
    ASSERT_TRUE(place);
    (*place)->Join(waits.Of(0));
    EXPECT_THAT(waits.Wait().message(), HasSubstr("has ended, so TPU devices ["));
  });
  for (const int own : {1, 2})
    processes.emplace_back([own] { EXPECT_TRUE(JoinPeers(Options(own, "ends"))); });
}

TEST(Peers, ThoseThatDoNotComeAreNamed) {
  PeerOptions options = Options(0, "late");
  options.patience = seconds(1);
  std::jthread one([&] { EXPECT_FALSE(JoinPeers(Options(1, "late"))); });
  const auto late = JoinPeers(options);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kDeadlineExceeded);
  EXPECT_THAT(late.error().message(), HasSubstr("[2] did not come"));
}

TEST(Peers, OfAnotherBuildIsRefused) {
  PeerOptions options = Options(0, "build");
  options.patience = seconds(1);
  std::jthread host([&] { EXPECT_FALSE(JoinPeers(options)); });
  PeerOptions other = Options(1, "build");
  other.build = "another";
  const auto refused = JoinPeers(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("'another' here, 'a build' in process 0"));
}

TEST(Peers, TwoSlicesAtOneAddressDoNotMix) {
  PeerOptions options = Options(0, "twice");
  options.patience = seconds(1);
  std::jthread first(
      [&] { EXPECT_EQ(JoinPeers(options).error().code(), Code::kDeadlineExceeded); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(JoinPeers(options).error().code(), Code::kAlreadyExists);
}

}  // namespace
}  // namespace torus::tpu
