#include "tpu/device/run_counter.h"

#include <algorithm>
#include <bit>

namespace torus::tpu {
namespace {

using pjrt::MakeArgs;
using slice::CountersNow;
using slice::DeviceCounters;

constexpr auto kRelaxed = std::memory_order_relaxed;

// Notes `runs` that took `nanoseconds` each.
void Note(DeviceCounters& counters, int64_t runs, int64_t nanoseconds, int64_t traffic) {
  const auto microseconds = static_cast<uint64_t>(std::max<int64_t>(nanoseconds, 0)) / 1000;
  const int bucket =
      std::min(static_cast<int>(std::bit_width(microseconds)), slice::kTimingBuckets - 1);
  counters.timing[bucket].fetch_add(runs, kRelaxed);
  counters.run_time.fetch_add(runs * nanoseconds, kRelaxed);
  counters.traffic.fetch_add(runs * traffic, kRelaxed);
}

void BeginOn(DeviceCounters& counters, int64_t now) {
  if (counters.running.fetch_add(1, kRelaxed) == 0) counters.busy_since.store(now, kRelaxed);
}

void EndOn(DeviceCounters& counters, int64_t began, int64_t traffic) {
  const int64_t now = CountersNow();
  // Read first: whoever begins the next sets it anew.
  const int64_t since = counters.busy_since.load(kRelaxed);
  if (counters.running.fetch_sub(1, kRelaxed) == 1 && now > since)
    counters.busy.fetch_add(now - since, kRelaxed);
  counters.last_run.store(now, kRelaxed);
  counters.runs.fetch_add(1, kRelaxed);
  Note(counters, 1, now - began, traffic);
}

// A run on one device that has not ended.
struct Running {
  std::shared_ptr<slice::CountersPage> page;  // may outlive its client
  DeviceCounters* counters;
  int64_t began, traffic;
  PJRT_Event* event;  // ours to destroy; null: the caller's
};

void Ended(PJRT_Error* error, void* argument) {
  State& s = state();
  const std::unique_ptr<Running> run(static_cast<Running*>(argument));
  s.engine.Take(error).ok();  // The caller hears of it by what the run made.
  EndOn(*run->counters, run->began, run->traffic);
  if (run->event == nullptr) return;
  auto destroy = MakeArgs<PJRT_Event_Destroy_Args>();
  destroy.event = run->event;
  s.engine.Take(s.engine.Call(pjrt::kEvent_Destroy, &destroy)).ok();
}

}  // namespace

void RunCounter::Begin() {
  began_ = CountersNow();
  for (Device* device : places_) BeginOn(device->counters, began_);
  if (args_.device_complete_events != nullptr) return;
  events_.resize(places_.size());
  args_.device_complete_events = events_.data();
}

void RunCounter::AwaitEnd(bool taken) {
  PJRT_Event* const* events = args_.device_complete_events;
  if (!events_.empty()) args_.device_complete_events = nullptr;
  for (size_t d = 0; d < places_.size(); ++d) {
    Device& device = *places_[d];
    PJRT_Event* const event = taken ? events[d] : nullptr;
    if (event == nullptr) {
      EndOn(device.counters, began_, taken ? program_.traffic_bytes : 0);
      continue;
    }
    auto* const running = new Running{device.client->counters, &device.counters, began_,
                                      program_.traffic_bytes, events_.empty() ? nullptr : event};
    auto on_ready = MakeArgs<PJRT_Event_OnReady_Args>();
    on_ready.event = event;
    on_ready.callback = Ended;
    on_ready.user_arg = running;
    State& s = state();
    if (PJRT_Error* error = s.engine.Call(pjrt::kEvent_OnReady, &on_ready)) Ended(error, running);
  }
}

void RunCounter::EndTiny() {
  const int64_t took = CountersNow() - began_;
  for (Device* device : places_) {
    device->counters.busy.fetch_add(took * kTinyRunsATiming, kRelaxed);
    Note(device->counters, kTinyRunsATiming, took, program_.traffic_bytes);
  }
}

}  // namespace torus::tpu
