// What a VM's processes use of its TPU, in the words of upstream's RuntimeMetricService.
//
// Pure. Thread-safety: values.
#ifndef TORUS_WORKER_RUNTIME_METRICS_H_
#define TORUS_WORKER_RUNTIME_METRICS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "slice/counters.h"
#include "tpu_metrics.pb.h"

namespace torus::worker {

// The counters of all processes together at one time.
struct UsageSample {
  int64_t at = 0;  // slice::CountersNow
  int devices_per_chip = 1, duty_cycles_per_chip = 1;
  double hbm_bandwidth = 0;                                     // a device's
  std::map<std::pair<int, int>, slice::DeviceReading> devices;  // by chip and core
};

UsageSample SampleOf(std::span<const slice::PageReading> pages, int64_t at);

// The metrics there are.
std::span<const std::string_view> MetricNames();

// One metric of the time between two samples. UNAVAILABLE where no process uses the TPU, as where
// upstream has no runtime that answers; NOT_FOUND for a name that is not there, as upstream's of a
// part that does not run (megascale).
Result<tpu::monitoring::runtime::TPUMetric> MetricOf(std::string_view name,
                                                     const UsageSample& before,
                                                     const UsageSample& now);

// What each core is doing. UNAVAILABLE as above.
Result<tpu::monitoring::runtime::GetTpuRuntimeStatusResponse> StatusOf(const UsageSample& now);

}  // namespace torus::worker

#endif  // TORUS_WORKER_RUNTIME_METRICS_H_
