#include "tpu/device/compile_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>

#include "tpu/device/tpu_options.h"

namespace torus::tpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  AddOverride(options, "xla_enable_async_all_gather");
  options += std::string("\x20\x01", 2);  // compile_portable_executable, after the map
  expected += std::string("\x20\x01", 2);
  const auto kept = WithoutTpuOptions(options);
  ASSERT_TRUE(kept) << kept.error().ToString();
  EXPECT_EQ(*kept, expected);
}

TEST(WithoutTpuOptions, LeavesTheBytesWhereThereIsNothingToDrop) {
  std::string options = BuildOptions();
  AddOverride(options, "xla_cpu_enable_fast_math");
  EXPECT_EQ(*WithoutTpuOptions(options), std::nullopt);
  EXPECT_EQ(*WithoutTpuOptions(""), std::nullopt);
}

TEST(WithoutTpuOptions, LeavesWhatIsNoProto) {
  EXPECT_EQ(*WithoutTpuOptions("\xff\xff\xff"), std::nullopt);
  EXPECT_EQ(*WithoutTpuOptions(std::string("\x3a\x7f", 2)), std::nullopt);          // cut short
  EXPECT_EQ(*WithoutTpuOptions(std::string("\x3a\x02\x0a\x7f", 4)), std::nullopt);  // inside, too
}

// CompileOptionsProto with two overrides, and debug options with two entries of a map.
std::string TwoMaps(const char* first, const char* second, int partitions) {
  std::string options;
  protozero::pbf_writer writer(options);
  {
    protozero::pbf_writer build(writer, 3);
    {
      protozero::pbf_writer debug(build, 3);
      debug.add_bool(31, true);
      debug.add_string(357, first);
      debug.add_string(357, second);
    }
    build.add_int64(5, partitions);
  }
  AddOverride(options, first);
  AddOverride(options, second);
  return options;
}

TEST(ComparableOptions, DoNotDependOnTheOrderOfMaps) {
  const auto text = ComparableOptions(TwoMaps("a", "b", 1));
  EXPECT_EQ(ComparableOptions(TwoMaps("b", "a", 1)), text);
  EXPECT_NE(ComparableOptions(TwoMaps("a", "c", 1)), text);
  EXPECT_NE(ComparableOptions(TwoMaps("a", "a", 1)), text);
  EXPECT_NE(ComparableOptions(TwoMaps("a", "b", 2)), text);
  EXPECT_NE(ComparableOptions(""), text);
  EXPECT_EQ(ComparableOptions("\xff\xff"), "\xff\xff");  // no proto
}

// The order of what is no map says something: argument_layouts, which are field 1.
TEST(ComparableOptions, KeepTheOrderOfLists) {
  EXPECT_NE(ComparableOptions("\x0a\x01x\x0a\x01y"), ComparableOptions("\x0a\x01y\x0a\x01x"));
}

TEST(WithoutTpuOptions, RefusesAnUnknownOneWithTheNearest) {
  std::string options = BuildOptions();
  AddOverride(options, "xla_tpu_enable_async_colective_fusion");
  const auto refused = WithoutTpuOptions(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("No such compile option: 'xla_tpu_enable_async_colective_fusion'"));
  EXPECT_THAT(refused.error().message(), HasSubstr("'xla_tpu_enable_async_collective_fusion'"));
}

TEST(Extent, IsReadAndRemade) {
  std::string options;
  protozero::pbf_writer writer(options);
  {
    protozero::pbf_writer build(writer, 3);
    build.add_int64(4, 8);
    build.add_int64(5, 2);
    build.add_string(9, "devices");
    build.add_bool(8, true);
  }
  AddOverride(options, "xla_cpu_enable_fast_math");
  EXPECT_EQ(ExtentOf(options).replicas, 8);
  EXPECT_EQ(ExtentOf(options).partitions, 2);
  const std::string alone = ForAnyDevice(options);
  EXPECT_EQ(ExtentOf(alone).replicas, 1);
  EXPECT_EQ(ExtentOf(alone).partitions, 1);
  EXPECT_THAT(alone, Not(HasSubstr("devices")));
  EXPECT_THAT(alone, HasSubstr("xla_cpu_enable_fast_math"));
  EXPECT_THAT(alone, HasSubstr(std::string("\x20\x01", 2)));  // portable
  EXPECT_EQ(ExtentOf("").replicas, 1);
  EXPECT_EQ(ExtentOf("\xff\xff").replicas, 1);
}

TEST(CheckTpuOption, ChecksTypes) {
  const auto ok = [](const char* name, OptionValue value) {
    return CheckTpuOption(name, value).ok();
  };
  EXPECT_TRUE(ok("xla_tpu_scoped_vmem_limit_kib", int64_t{65536}));
  EXPECT_TRUE(ok("xla_tpu_scoped_vmem_limit_kib", std::string("65536")));
  EXPECT_FALSE(ok("xla_tpu_scoped_vmem_limit_kib", std::string("64M")));
  EXPECT_FALSE(ok("xla_tpu_scoped_vmem_limit_kib", true));
  EXPECT_FALSE(ok("xla_tpu_scoped_vmem_limit_kib", 1.5));
  EXPECT_TRUE(ok("xla_tpu_enable_ag_backward_pipelining", std::string("true")));
  EXPECT_FALSE(ok("xla_tpu_enable_ag_backward_pipelining", std::string("ENABLED")));
  EXPECT_TRUE(ok("xla_tpu_aggressive_opt_barrier_removal", std::string("ENABLED")));
  EXPECT_TRUE(ok("xla_tpu_aggressive_opt_barrier_removal", false));
  EXPECT_FALSE(ok("xla_tpu_bf16_emission_mode", true));
}

}  // namespace
}  // namespace torus::tpu
