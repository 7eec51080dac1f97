#include "worker/tpu_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::worker {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kSecond = 1'000'000'000;

VmProcess Process(int64_t seconds) {
  return {.pid = 7, .seconds = seconds, .framework = "jax", .reach = Reach::kLibtpu,
          .command = "python3 a.py"};
}

// The facts of a process after two looks that are a minute apart, without the first.
std::vector<std::string> Facts(TpuUse then, TpuUse now, int64_t seconds = 300) {
  then.at = 100 * kSecond;
  now.at = 160 * kSecond;
  then.devices = now.devices = 4;
  UseHistory history;
  AddLook(then, history);
  AddLook(now, history);
  auto facts = FactsOf(Process(seconds), history);
  facts.erase(facts.begin());
  return facts;
}

TEST(TpuUse, SaysWhoRunsAndHow) {
  EXPECT_THAT(FactsOf(Process(5), {}), ElementsAre("running 7 5 jax with-libtpu python3 a.py"));
  VmProcess process = Process(30);
  process.reach = Reach::kNone;
  EXPECT_THAT(FactsOf(process, {TpuUse{}}),
              ElementsAre("running 7 30 jax without-tpu python3 a.py"));
}

TEST(TpuUse, SumsThePagesOfAProcess) {
  slice::PageReading mine{.pid = 7, .compiles = 3}, others{.pid = 8, .compiles = 99};
  mine.devices = {{.running = 0, .runs = 5, .busy = 10, .idle = 4},
                  {.running = 1, .runs = 6, .busy = 20, .idle = 0}};
  const std::vector pages{mine, others, mine};
  const TpuUse use = UseOf(pages, 7, 1);
  EXPECT_EQ(use.devices, 4);
  EXPECT_EQ(use.compiles, 6);
  EXPECT_EQ(use.runs, 22);
  EXPECT_EQ(use.busy, 60);
  EXPECT_EQ(use.running, 2);
  EXPECT_EQ(use.idle, 0);
}

TEST(TpuUse, NumbersThatCannotBeAreNone) {
  slice::PageReading page{.pid = 7, .compiles = -5};
  page.devices = {{.runs = INT64_MAX}, {.runs = INT64_MAX, .busy = -1}};
  const TpuUse use = UseOf({&page, 1}, 7, 1);
  EXPECT_EQ(use.compiles, 0);
  EXPECT_EQ(use.runs, 0);
  EXPECT_EQ(use.busy, 0);
}

TEST(TpuUse, HoldsWithoutRunning) {
  EXPECT_THAT(Facts({.runs = 9}, {.runs = 9, .idle = 700 * kSecond}),
              ElementsAre("holds 7 700 python3 a.py"));
  EXPECT_THAT(Facts({.runs = 9}, {.runs = 9, .running = 1}), ElementsAre()) << "a long program";
  EXPECT_THAT(Facts({.runs = 9}, {.runs = 10, .idle = kSecond}), ElementsAre());
}

TEST(TpuUse, CompilesAndComputes) {
  const TpuUse then{.compiles = 10, .runs = 100, .busy = 0};
  const TpuUse now{.compiles = 40, .runs = 200, .busy = 4 * 6 * kSecond};
  EXPECT_THAT(Facts(then, now), ElementsAre("compiling 7 30 60 python3 a.py",
                                            "duty 7 10 60 python3 a.py"));
  EXPECT_THAT(Facts(then, now, 100), ElementsAre()) << "it has only begun";
  EXPECT_THAT(Facts({.runs = 100}, {.runs = 109, .running = 1}), ElementsAre()) << "no loop";
}

TEST(TpuUse, AShortWhileSaysNothing) {
  UseHistory history;
  AddLook({.at = 0, .devices = 1, .runs = 0}, history);
  AddLook({.at = 30 * kSecond, .devices = 1, .compiles = 50, .runs = 500, .running = 1}, history);
  EXPECT_EQ(FactsOf(Process(300), history).size(), 1u);
}

TEST(TpuUse, RemembersAMinute) {
  UseHistory history;
  for (int i = 0; i < 1000; ++i) AddLook({.at = i * 5 * kSecond}, history);
  EXPECT_EQ(history.size(), 13u);
}

}  // namespace
}  // namespace torus::worker
