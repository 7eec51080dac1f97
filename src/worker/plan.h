// What a worker does next: a pure function of what is asked and what there is.
//
//             RUN, not live            RUN, live                 STOP            DELETE
//   action    start (after back-off)   refresh if not in effect  stop once       remove
//   report    PREPARING, FAILED        RUNNING                   STOPPED         DELETED
//
// Pure. Thread-safety: values.
#ifndef TORUS_WORKER_PLAN_H_
#define TORUS_WORKER_PLAN_H_

#include <chrono>
#include <cstdint>

#include "worker.pb.h"

namespace torus::worker {

using SteadyTime = std::chrono::steady_clock::time_point;

enum class Action {
  kNothing,
  kStart,    // take down what is half there, then start
  kRefresh,  // a live sandbox: bring users, keys, metadata into line, wait for ssh
  kStop,     // take down, keep the disk
  kRemove,   // take down, remove the disk, end
};

struct Situation {
  Desired desired = DESIRED_UNSPECIFIED;
  int64_t ordered = 0;       // the newest order's generation
  int64_t in_effect = -1;    // the generation last carried out by this process; -1: none
  bool live = false;         // a sandbox that was started whole
  bool refresh_due = false;  // a key has expired
  SteadyTime now;
  SteadyTime not_before;  // back-off after a failure
};

Action Decide(const Situation& situation);

// How long to wait after the n-th failure in a row: 0.5 s, doubling, 60 s at most.
std::chrono::milliseconds BackOff(int failures);

}  // namespace torus::worker

#endif  // TORUS_WORKER_PLAN_H_
