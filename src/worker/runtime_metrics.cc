#include "worker/runtime_metrics.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

namespace torus::worker {
namespace {

using slice::DeviceReading;
namespace runtime = tpu::monitoring::runtime;

constexpr double kNanosecondsASecond = 1e9;

// What upstream calls a device: its number on this host.
int IdOf(const UsageSample& sample, const DeviceReading& device) {
  return device.chip * sample.devices_per_chip + device.core;
}

void Merge(DeviceReading& into, const DeviceReading& other) {
  into.hbm_total = std::max(into.hbm_total, other.hbm_total);
  const auto add = [](int64_t& sum, int64_t value) {
    if (__builtin_add_overflow(sum, value, &sum)) sum = 0;
  };
  add(into.hbm_in_use, other.hbm_in_use);
  add(into.running, other.running);
  add(into.runs, other.runs);
  add(into.traffic, other.traffic);
  add(into.run_time, other.run_time);
  add(into.busy, other.busy);
  into.idle = std::min(into.idle, other.idle);
  for (int b = 0; b < slice::kTimingBuckets; ++b) add(into.timing[b], other.timing[b]);
}

// How much a counter of a device grew between the samples, a second.
double Rate(int64_t DeviceReading::*counter, const DeviceReading& device, const UsageSample& before,
            const UsageSample& now) {
  const auto found = before.devices.find({device.chip, device.core});
  const double then =
      found == before.devices.end() ? 0 : static_cast<double>(found->second.*counter);
  const double seconds = static_cast<double>(now.at - before.at) / kNanosecondsASecond;
  if (seconds <= 0) return 0;
  return std::max(0.0, static_cast<double>(device.*counter) - then) / seconds;
}

double Percent(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) * 100 : 0;
}

runtime::Metric& Add(runtime::TPUMetric& metric) {
  runtime::Metric& one = *metric.add_metrics();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  one.mutable_timestamp()->set_seconds(seconds.count());
  one.mutable_timestamp()->set_nanos(
      static_cast<int32_t>(std::chrono::nanoseconds(now - seconds).count()));
  return one;
}

runtime::Gauge& AddGauge(runtime::TPUMetric& metric, int id) {
  runtime::Metric& one = Add(metric);
  one.mutable_attribute()->set_key("device-id");
  one.mutable_attribute()->mutable_value()->set_int_attr(id);
  return *one.mutable_gauge();
}

// Of a device that is named as the metrics of programs name it.
runtime::Metric& AddOfCore(runtime::TPUMetric& metric, int id) {
  runtime::Metric& one = Add(metric);
  one.mutable_attribute()->set_key("device-attr");
  auto& list = *one.mutable_attribute()->mutable_value()->mutable_kvlist_attr();
  const auto say = [&](const char* key, const std::string& value) {
    runtime::Attribute& attribute = *list.add_attributes();
    attribute.set_key(key);
    attribute.mutable_value()->set_string_attr(value);
  };
  say("device_ordinal", std::to_string(id));
  say("core_type", "TPU_CORE_TYPE_TENSOR_CORE");
  return one;
}

void FillDistribution(const DeviceReading& device, runtime::Distribution& distribution) {
  const auto count = std::accumulate(
      device.timing.begin(), device.timing.end(), int64_t{0},
      [](int64_t sum, int64_t n) { return sum + std::clamp<int64_t>(n, 0, int64_t{1} << 56); });
  distribution.set_count(count);
  if (count > 0)
    distribution.set_mean(static_cast<double>(device.run_time) / 1000 / static_cast<double>(count));
  auto& buckets = *distribution.mutable_bucket_options()->mutable_exponential_buckets();
  buckets.set_num_finite_buckets(slice::kTimingBuckets - 2);
  buckets.set_growth_factor(2);
  buckets.set_scale(1);
  for (const int64_t n : device.timing)
    distribution.add_bucket_counts(std::clamp<int64_t>(n, 0, int64_t{1} << 56));
}

using Fill = void (*)(const UsageSample& before, const UsageSample& now, runtime::TPUMetric&);

template <int64_t DeviceReading::*counter>
void FillBytes(const UsageSample&, const UsageSample& now, runtime::TPUMetric& metric) {
  for (const auto& [place, device] : now.devices)
    AddGauge(metric, IdOf(now, device)).set_as_int(std::max<int64_t>(device.*counter, 0));
}

// Of each chip, or of each of its cores where upstream has two of a chip.
void FillDutyCycle(const UsageSample& before, const UsageSample& now, runtime::TPUMetric& metric) {
  std::map<int, double> duty;
  const int cores = std::max(1, now.devices_per_chip / now.duty_cycles_per_chip);
  for (const auto& [place, device] : now.devices) {
    const double busy = Rate(&DeviceReading::busy, device, before, now);
    double& of_chip = duty[device.chip * now.duty_cycles_per_chip + device.core / cores];
    of_chip = std::max(of_chip, Percent(busy, kNanosecondsASecond));
  }
  for (const auto& [id, percent] : duty) AddGauge(metric, id).set_as_double(percent);
}

void FillBandwidth(const UsageSample& before, const UsageSample& now, runtime::TPUMetric& metric) {
  for (const auto& [place, device] : now.devices) {
    const double traffic = Rate(&DeviceReading::traffic, device, before, now);
    AddGauge(metric, IdOf(now, device)).set_as_double(Percent(traffic, now.hbm_bandwidth));
  }
}

void FillIdle(const UsageSample&, const UsageSample& now, runtime::TPUMetric& metric) {
  for (const auto& [place, device] : now.devices)
    AddGauge(metric, IdOf(now, device))
        .set_as_double(static_cast<double>(device.idle) / kNanosecondsASecond);
}

void FillQueue(const UsageSample&, const UsageSample& now, runtime::TPUMetric& metric) {
  for (const auto& [place, device] : now.devices)
    AddOfCore(metric, IdOf(now, device))
        .mutable_gauge()
        ->set_as_int(std::max<int64_t>(device.running, 0));
}

void FillTiming(const UsageSample&, const UsageSample& now, runtime::TPUMetric& metric) {
  for (const auto& [place, device] : now.devices)
    FillDistribution(device, *AddOfCore(metric, IdOf(now, device)).mutable_distribution());
}

struct Entry {
  std::string_view name, description;
  Fill fill;
};

constexpr Entry kMetrics[] = {
    {"tpu.runtime.hbm.memory.total.bytes", "HBM of each device, bytes",
     FillBytes<&DeviceReading::hbm_total>},
    {"tpu.runtime.hbm.memory.usage.bytes", "HBM of each device that is in use, bytes",
     FillBytes<&DeviceReading::hbm_in_use>},
    {"tpu.runtime.tensorcore.dutycycle.percent",
     "Share of the time in which a program ran on the chip", FillDutyCycle},
    {"tpu.runtime.hbm.utilization.percent", "Share of the bandwidth of each device's HBM in use",
     FillBandwidth},
    {"tpu.runtime.tensorcore.idle_duration.seconds", "Seconds since a program last ran", FillIdle},
    {"hlo.queue.size.gauge", "Programs given to each device that have not ended", FillQueue},
    {"hlo.execution.timing.distribution.microseconds", "How long programs took, microseconds",
     FillTiming},
};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kMetrics)> names;
  std::ranges::transform(kMetrics, names.begin(), &Entry::name);
  return names;
}();

Status CheckUsed(const UsageSample& now) {
  if (!now.devices.empty()) return {};
  return Unavailable("No process uses the TPU of this VM.");
}

}  // namespace

UsageSample SampleOf(std::span<const slice::PageReading> pages, int64_t at) {
  UsageSample sample{.at = at};
  for (const auto& page : pages) {
    sample.devices_per_chip = page.devices_per_chip;
    sample.duty_cycles_per_chip = page.duty_cycles_per_chip;
    sample.hbm_bandwidth = page.hbm_bandwidth;
    for (const DeviceReading& device : page.devices) {
      constexpr int kMost = 1 << 20;
      if (device.chip < 0 || device.chip > kMost || device.core < 0 || device.core > kMost)
        continue;
      const auto [at_place, is_new] =
          sample.devices.try_emplace({device.chip, device.core}, device);
      if (!is_new) Merge(at_place->second, device);
    }
  }
  return sample;
}

std::span<const std::string_view> MetricNames() { return kNames; }

Result<runtime::TPUMetric> MetricOf(std::string_view name, const UsageSample& before,
                                    const UsageSample& now) {
  const auto* const entry = std::ranges::find(kMetrics, name, &Entry::name);
  if (entry == std::end(kMetrics)) return NotFound("There is no metric '{}' here.", name);
  TORUS_RETURN_IF_ERROR(CheckUsed(now));
  runtime::TPUMetric metric;
  metric.set_name(std::string(entry->name));
  metric.set_description(std::string(entry->description));
  entry->fill(before, now, metric);
  return metric;
}

Result<runtime::GetTpuRuntimeStatusResponse> StatusOf(const UsageSample& now) {
  TORUS_RETURN_IF_ERROR(CheckUsed(now));
  runtime::GetTpuRuntimeStatusResponse response;
  for (const auto& [place, device] : now.devices) {
    const int id = IdOf(now, device);
    auto& core = (*response.mutable_core_states())[id];
    core.mutable_core_id()->set_global_core_id(id);
    core.mutable_core_id()->set_chip_id(device.chip);
    core.mutable_core_id()->mutable_core_on_chip()->set_type(
        tpu_telemetry::TPU_CORE_TYPE_TENSOR_CORE);
    core.mutable_core_id()->mutable_core_on_chip()->set_index(device.core);
    core.set_xdb_server_running(false);
    auto& sequencer = *core.add_sequencer_info();
    sequencer.set_sequencer_type(tpu_telemetry::TPU_SEQUENCER_TYPE_TENSOR_CORE_SEQUENCER);
    sequencer.set_sequencer_index(0);
    sequencer.set_run_id(device.runs);
  }
  return response;
}

}  // namespace torus::worker
