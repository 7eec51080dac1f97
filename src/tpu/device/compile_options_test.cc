#include "tpu/device/compile_options.h"

#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>

namespace torus::tpu {
namespace {

void AddOverride(std::string& options, const std::string& key) {
  protozero::pbf_writer writer(options);
  protozero::pbf_writer entry(writer, 7);
  entry.add_string(1, key);
  protozero::pbf_writer value(entry, 2);
  value.add_bool(2, true);
}

std::string BuildOptions() { return {"\x1a\x04\x20\x01\x28\x01", 6}; }

TEST(WithoutTpuOptions, DropsThemAndKeepsTheRest) {
  std::string options = BuildOptions(), expected = BuildOptions();
  AddOverride(options, "xla_tpu_enable_async_collective_fusion");
  AddOverride(options, "xla_cpu_enable_fast_math");
  AddOverride(expected, "xla_cpu_enable_fast_math");
  AddOverride(options, "xla_jf_spmd_threshold_for_windowed_einsum_mib");
  options += std::string("\x20\x01", 2);  // compile_portable_executable, after the map
  expected += std::string("\x20\x01", 2);
  EXPECT_EQ(WithoutTpuOptions(options), expected);
}

TEST(WithoutTpuOptions, LeavesTheBytesWhereThereIsNothingToDrop) {
  std::string options = BuildOptions();
  AddOverride(options, "xla_cpu_enable_fast_math");
  EXPECT_EQ(WithoutTpuOptions(options), std::nullopt);
  EXPECT_EQ(WithoutTpuOptions(""), std::nullopt);
}

TEST(WithoutTpuOptions, LeavesWhatIsNoProto) {
  EXPECT_EQ(WithoutTpuOptions("\xff\xff\xff"), std::nullopt);
  EXPECT_EQ(WithoutTpuOptions(std::string("\x3a\x7f", 2)), std::nullopt);          // cut short
  EXPECT_EQ(WithoutTpuOptions(std::string("\x3a\x02\x0a\x7f", 4)), std::nullopt);  // inside, too
}

}  // namespace
}  // namespace torus::tpu
