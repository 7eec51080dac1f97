#include "base/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace torus {
namespace {

using internal::Fault;
using internal::ParseFaults;
using ::testing::ElementsAre;

TEST(Fault, ReadsPointsAndCounts) {
  EXPECT_THAT(ParseFaults("worker.mount:2,store.commit"),
              ElementsAre(Fault{"worker.mount", 2}, Fault{"store.commit", 1}));
}

TEST(Fault, MayStopInsteadOfKill) {
  EXPECT_THAT(ParseFaults("a:3=stop,b=stop"),
              ElementsAre(Fault{"a", 3, true}, Fault{"b", 1, true}));
}

TEST(Fault, LeavesOutWhatItCannotRead) {
  EXPECT_THAT(ParseFaults(""), ElementsAre());
  EXPECT_THAT(ParseFaults(",a:0,b:x,:3,c:1"), ElementsAre(Fault{"c", 1}));
}

TEST(FaultDeathTest, DiesAtTheHitThatWasNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("TORUS_FAULT", "point:2", 1);
  EXPECT_EXIT(
      {
        FaultPoint("other");
        FaultPoint("point");
        FaultPoint("point");
        std::exit(0);
      },
      testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(
      {
        FaultPoint("point");
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("TORUS_FAULT");
}

}  // namespace
}  // namespace torus
