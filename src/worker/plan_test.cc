#include "worker/plan.h"

#include <gtest/gtest.h>

namespace torus::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const SteadyTime kNow = SteadyTime() + seconds(100);

Situation Asked(Desired desired, bool live, int64_t ordered = 3, int64_t in_effect = -1) {
  return {
      .desired = desired, .ordered = ordered, .in_effect = in_effect, .live = live, .now = kNow};
}

TEST(Plan, BringsUpWhatIsAskedFor) {
  EXPECT_EQ(Decide(Asked(RUN, false)), Action::kStart);
  EXPECT_EQ(Decide(Asked(RUN, false, 3, 3)), Action::kStart) << "it has died";
}

TEST(Plan, AdoptsALiveSandboxAndRefreshesItOnce) {
  EXPECT_EQ(Decide(Asked(RUN, true)), Action::kRefresh);
  EXPECT_EQ(Decide(Asked(RUN, true, 4, 3)), Action::kRefresh);
  EXPECT_EQ(Decide(Asked(RUN, true, 3, 3)), Action::kNothing);
  Situation expired = Asked(RUN, true, 3, 3);
  expired.refresh_due = true;
  EXPECT_EQ(Decide(expired), Action::kRefresh);
}

TEST(Plan, StopsFromEveryStateOnce) {
  EXPECT_EQ(Decide(Asked(STOP, true)), Action::kStop);
  EXPECT_EQ(Decide(Asked(STOP, false)), Action::kStop) << "half a sandbox may be there";
  EXPECT_EQ(Decide(Asked(STOP, false, 3, 3)), Action::kNothing);
}

TEST(Plan, RemovesFromEveryState) {
  EXPECT_EQ(Decide(Asked(DELETE, true)), Action::kRemove);
  EXPECT_EQ(Decide(Asked(DELETE, false, 3, 3)), Action::kRemove);
}

TEST(Plan, WaitsAfterAFailure) {
  for (const Desired desired : {RUN, STOP, DELETE}) {
    Situation failed = Asked(desired, false);
    failed.not_before = kNow + seconds(1);
    EXPECT_EQ(Decide(failed), Action::kNothing);
  }
  EXPECT_EQ(Decide(Asked(DESIRED_UNSPECIFIED, true)), Action::kNothing);
}

TEST(Plan, BackOffDoublesToAMinute) {
  EXPECT_EQ(BackOff(1), milliseconds(500));
  EXPECT_EQ(BackOff(2), milliseconds(1000));
  EXPECT_EQ(BackOff(8), milliseconds(60'000));
  EXPECT_EQ(BackOff(1000), milliseconds(60'000));
}

}  // namespace
}  // namespace torus::worker
