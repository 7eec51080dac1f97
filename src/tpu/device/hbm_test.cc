#include "tpu/device/hbm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::tpu {
namespace {

TEST(FormatBytes, PrintsAsUpstream) {
  EXPECT_EQ(FormatBytes(0), "0B");
  EXPECT_EQ(FormatBytes(1023), "1023B");
  EXPECT_EQ(FormatBytes(512 << 10), "512.0K");
  EXPECT_EQ(FormatBytes(int64_t{3} << 19), "1.50M");
  EXPECT_EQ(FormatBytes(int64_t{17} << 30), "17.00G");
}

TEST(Hbm, KeepsAccount) {
  const std::string name = "0x0x0_HBM0";
  slice::DeviceCounters counters;
  Hbm hbm(1000, name, counters);
  hbm.Add(300, 1, 300);
  hbm.Add(200, 2, 150);
  hbm.Remove(300);
  EXPECT_EQ(hbm.in_use(), 200);
  EXPECT_EQ(counters.hbm_in_use, 200) << "as others see it";
  EXPECT_EQ(counters.hbm_total, 1000);
  EXPECT_EQ(hbm.peak(), 500);
  EXPECT_EQ(hbm.allocations(), 3);
  EXPECT_EQ(hbm.largest(), 300);
  hbm.NotePeak(700);
  EXPECT_EQ(hbm.peak(), 900);
  hbm.ClearStats();
  EXPECT_EQ(hbm.peak(), 200);
  EXPECT_EQ(hbm.largest(), 0);
}

TEST(Hbm, RefusesWhatDoesNotFit) {
  const std::string name = "1x0x0_HBM1";
  slice::DeviceCounters counters;
  Hbm hbm(int64_t{16} << 30, name, counters);
  hbm.Add(int64_t{10} << 30, 1, int64_t{10} << 30);
  EXPECT_TRUE(hbm.CheckBuffer(int64_t{6} << 30).ok());
  const Status status = hbm.CheckBuffer((int64_t{6} << 30) + 1);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "Error allocating device buffer: Ran out of memory on HBM: Attempting to allocate "
            "6.00G. That was not possible. There are 6.00G free.; (1x0x0_HBM1)");
}

}  // namespace
}  // namespace torus::tpu
