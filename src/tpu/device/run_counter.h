// Counts a run of a program on the counters' page: when its devices are busy, and for how long.
//
// A run ends where the engine says that it has ended. That costs an event a device, which is
// nothing beside a program that goes to a thread of the engine's. A tiny one runs on its caller's
// thread within a microsecond or two, so that a clock or a locked instruction would show: every
// 64th of those is timed and stands for 64, and one is lost now and then where threads meet.
// Thread-safety: a RunCounter is one thread's; the page is everybody's.
#ifndef TORUS_TPU_DEVICE_RUN_COUNTER_H_
#define TORUS_TPU_DEVICE_RUN_COUNTER_H_

#include <ctime>
#include <span>
#include <vector>

#include "slice/counters.h"
#include "tpu/device/state.h"
#include "tpu/pjrt/args.h"

namespace torus::tpu {

// Under this many flops XLA runs a program on its caller's thread.
inline constexpr double kTinyFlops = 1000;
inline constexpr int64_t kTinyRunsATiming = 64;

class RunCounter {
 public:
  // Before the call of PJRT_LoadedExecutable_Execute, which may then be asked for events.
  RunCounter(const Program& program, std::span<Device* const> places,
             PJRT_LoadedExecutable_Execute_Args& args)
      : program_(program), places_(places), args_(args) {
    if (program.is_tiny)
      BeginTiny();
    else
      Begin();
  }
  // After it: whether the engine has taken the run.
  void Taken(bool taken) {
    if (!program_.is_tiny)
      AwaitEnd(taken);
    else if (began_ != 0 && taken)
      EndTiny();
  }

 private:
  void Begin();
  void AwaitEnd(bool taken);
  void EndTiny();

  void BeginTiny() {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    timespec now;
    // Some milliseconds old, and almost free.
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    bool timed = false;
    for (Device* device : places_) {
      auto& counters = device->counters;
      const int64_t runs = counters.runs.load(kRelaxed);
      counters.runs.store(runs + 1, kRelaxed);
      counters.last_run.store(now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec, kRelaxed);
      timed |= runs % kTinyRunsATiming == 0;
    }
    if (timed) began_ = slice::CountersNow();
  }

  const Program& program_;
  const std::span<Device* const> places_;
  PJRT_LoadedExecutable_Execute_Args& args_;
  int64_t began_ = 0;                // 0: not timed
  std::vector<PJRT_Event*> events_;  // ours, where the caller wants none
};

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_RUN_COUNTER_H_
