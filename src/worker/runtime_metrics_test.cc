#include "worker/runtime_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

// A v2-8's first two chips: four cores.
slice::PageReading Page() {
  slice::PageReading page{.devices_per_chip = 2, .hbm_bandwidth = 1000};
  for (int d = 0; d < 4; ++d)
    page.devices.push_back({.chip = d / 2, .core = d % 2, .hbm_total = 100, .hbm_in_use = d});
  return page;
}

std::vector<double> Doubles(std::string_view name, const UsageSample& before,
                            const UsageSample& now) {
  std::vector<double> values;
  const auto metric = MetricOf(name, before, now);
  for (const auto& one : metric->metrics()) values.push_back(one.gauge().as_double());
  return values;
}

TEST(RuntimeMetrics, MemoryIsOfEachCore) {
  const auto sample = SampleOf(std::vector{Page()}, kSecond);
  const auto metric = *MetricOf("tpu.runtime.hbm.memory.usage.bytes", sample, sample);
  EXPECT_EQ(metric.name(), "tpu.runtime.hbm.memory.usage.bytes");
  ASSERT_EQ(metric.metrics_size(), 4);
  EXPECT_EQ(metric.metrics(3).attribute().value().int_attr(), 3);
  EXPECT_EQ(metric.metrics(3).gauge().as_int(), 3);
}

TEST(RuntimeMetrics, TheDutyCycleIsOfEachChip) {
  auto page = Page();
  const auto before = SampleOf(std::vector{page}, kSecond);
  page.devices[1].busy = kSecond / 2;
  page.devices[3].busy = 5 * kSecond;
  const auto now = SampleOf(std::vector{page}, 3 * kSecond);
  const auto name = "tpu.runtime.tensorcore.dutycycle.percent";
  EXPECT_THAT(Doubles(name, before, now), ElementsAre(25, 100));
  EXPECT_THAT(Doubles(name, now, SampleOf(std::vector{page}, 4 * kSecond)), ElementsAre(0, 0));
  EXPECT_THAT(Doubles(name, now, now), ElementsAre(0, 0)) << "no time has passed";
}

TEST(RuntimeMetrics, TheDutyCycleIsOfEachCoreWhereUpstreamHasItSo) {
  auto page = Page();
  page.duty_cycles_per_chip = 2;
  const auto before = SampleOf(std::vector{page}, kSecond);
  page.devices[2].busy = kSecond;
  const auto now = SampleOf(std::vector{page}, 2 * kSecond);
  EXPECT_THAT(Doubles("tpu.runtime.tensorcore.dutycycle.percent", before, now),
              ElementsAre(0, 0, 100, 0));
}

TEST(RuntimeMetrics, ProcessesAreCountedTogether) {
  auto first = Page(), second = Page();
  first.devices.resize(2);
  second.devices.erase(second.devices.begin());  // they share one core
  first.devices[1].running = 2;
  first.devices[1].idle = 0;
  second.devices[0].idle = 7 * kSecond;
  const auto sample = SampleOf(std::vector{first, second}, kSecond);
  ASSERT_EQ(sample.devices.size(), 4u);
  EXPECT_EQ(sample.devices.at({0, 1}).hbm_in_use, 2);
  EXPECT_EQ(sample.devices.at({0, 1}).hbm_total, 100);
  EXPECT_THAT(Doubles("tpu.runtime.tensorcore.idle_duration.seconds", sample, sample),
              ElementsAre(0, 0, 0, 0));
  const auto queue = *MetricOf("hlo.queue.size.gauge", sample, sample);
  const auto& attributes = queue.metrics(1).attribute().value().kvlist_attr().attributes();
  EXPECT_EQ(attributes[0].key(), "device_ordinal");
  EXPECT_EQ(attributes[0].value().string_attr(), "1");
  EXPECT_EQ(queue.metrics(1).gauge().as_int(), 2);
}

TEST(RuntimeMetrics, ANewProcessMayHaveCountedLessThanTheOneBefore) {
  auto page = Page();
  page.devices[0].busy = page.devices[0].traffic = 100 * kSecond;
  const auto before = SampleOf(std::vector{page}, kSecond);
  const auto now = SampleOf(std::vector{Page()}, 2 * kSecond);
  EXPECT_THAT(Doubles("tpu.runtime.tensorcore.dutycycle.percent", before, now), ElementsAre(0, 0));
  EXPECT_THAT(Doubles("tpu.runtime.hbm.utilization.percent", before, now), ElementsAre(0, 0, 0, 0));
}

TEST(RuntimeMetrics, BandwidthIsWhatProgramsMove) {
  auto page = Page();
  const auto before = SampleOf(std::vector{page}, kSecond);
  page.devices[0].traffic = 500;
  const auto now = SampleOf(std::vector{page}, 2 * kSecond);
  EXPECT_THAT(Doubles("tpu.runtime.hbm.utilization.percent", before, now),
              ElementsAre(50, 0, 0, 0));
}

TEST(RuntimeMetrics, TimesOfProgramsAreADistribution) {
  auto page = Page();
  page.devices[0].timing[0] = 1;
  page.devices[0].timing[5] = 3;
  page.devices[0].run_time = 80'000;
  const auto sample = SampleOf(std::vector{page}, kSecond);
  const auto metric = *MetricOf("hlo.execution.timing.distribution.microseconds", sample, sample);
  const auto& distribution = metric.metrics(0).distribution();
  EXPECT_EQ(distribution.count(), 4);
  EXPECT_EQ(distribution.mean(), 20);
  EXPECT_EQ(distribution.bucket_counts(5), 3);
  EXPECT_EQ(distribution.bucket_counts_size(),
            distribution.bucket_options().exponential_buckets().num_finite_buckets() + 2);
}

TEST(RuntimeMetrics, WhatIsNotThereIsSaidAsUpstreamSaysIt) {
  const auto idle = SampleOf({}, kSecond), used = SampleOf(std::vector{Page()}, kSecond);
  EXPECT_EQ(MetricOf(MetricNames()[0], idle, idle).error().code(), Code::kUnavailable);
  EXPECT_EQ(StatusOf(idle).error().code(), Code::kUnavailable);
  EXPECT_EQ(MetricOf("megascale.x", used, used).error().code(), Code::kNotFound);
  for (const auto name : MetricNames())
    EXPECT_THAT(MetricOf(name, used, used)->metrics(), Not(IsEmpty())) << name;
  EXPECT_EQ(StatusOf(used)->core_states().at(3).core_id().chip_id(), 1);
}

TEST(RuntimeMetrics, HostileCountersHarmNobody) {
  auto page = Page();
  for (auto& device : page.devices) {
    device.busy = device.run_time = device.runs = device.traffic = INT64_MIN;
    device.hbm_in_use = device.running = INT64_MAX;
    device.timing.fill(INT64_MAX);
    device.chip = INT32_MAX;
  }
  page.devices[0].chip = 0;
  page.devices[1].chip = -1;
  const auto sample = SampleOf(std::vector{page, page}, kSecond);
  const auto before = SampleOf(std::vector{Page()}, 0);
  for (const auto name : MetricNames()) EXPECT_TRUE(MetricOf(name, before, sample)) << name;
  EXPECT_EQ(sample.devices.size(), 1u);
}

}  // namespace
}  // namespace torus::worker
