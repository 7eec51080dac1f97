// The counters' page, which a VM writes and the worker reads on the host: whatever is in it, each
// metric is an answer that upstream's clients can read.
#include "fuzz.h"
#include "slice/counters.h"
#include "worker/runtime_metrics.h"

namespace torus::fuzz {
namespace {

using tpu::monitoring::runtime::TPUMetric;

void CheckMetric(const TPUMetric& metric, const worker::UsageSample& now) {
  Check(metric.metrics_size() > 0, "{} has values", metric.name());
  Check(static_cast<size_t>(metric.metrics_size()) <= 16 * now.devices.size(), "{} are too many",
        metric.metrics_size());
  for (const auto& one : metric.metrics()) {
    if (metric.name().ends_with(".percent")) {
      const double percent = one.gauge().as_double();
      Check(percent >= 0 && percent <= 100, "{} is from 0 to 100", percent);
    }
    Check(one.gauge().as_int() >= 0, "{} is no less than 0", one.gauge().as_int());
    Check(one.distribution().count() >= 0, "{} is a count", one.distribution().count());
    for (const int64_t count : one.distribution().bucket_counts())
      Check(count >= 0, "{} is a count", count);
  }
}

}  // namespace

// Two pages of one length: what was, and what is.
void Fuzz(std::string_view input) {
  const auto half = input.size() / 2;
  const auto then = slice::ParsePage(input.substr(0, half), 1'000'000'000);
  const auto page = slice::ParsePage(input.substr(half), 2'000'000'000);
  if (!then || !page) return;
  const auto before = worker::SampleOf({&*then, 1}, 1'000'000'000);
  const auto now = worker::SampleOf(std::vector{*then, *page}, 2'000'000'000);
  for (const auto name : worker::MetricNames()) {
    const auto metric = worker::MetricOf(name, before, now);
    Check(metric.has_value() != now.devices.empty(), "{} is there where a device is", name);
    if (metric) CheckMetric(*metric, now);
  }
  Check(worker::StatusOf(now).has_value() != now.devices.empty(), "so is the status");
}

}  // namespace torus::fuzz
