#include "worker/plan.h"

#include <algorithm>

namespace torus::worker {

Action Decide(const Situation& s) {
  const bool done = s.in_effect == s.ordered;
  const bool may_try = s.now >= s.not_before;
  switch (s.desired) {
    case RUN:
      if (!may_try) return Action::kNothing;
      if (!s.live) return Action::kStart;
      return done && !s.refresh_due ? Action::kNothing : Action::kRefresh;
    case STOP:
      return done || !may_try ? Action::kNothing : Action::kStop;
    case DELETE:
      return may_try ? Action::kRemove : Action::kNothing;
    default:
      return Action::kNothing;
  }
}

std::chrono::milliseconds BackOff(int failures) {
  const int doublings = std::clamp(failures - 1, 0, 7);
  return std::min(std::chrono::milliseconds(500 << doublings), std::chrono::milliseconds(60'000));
}

}  // namespace torus::worker
