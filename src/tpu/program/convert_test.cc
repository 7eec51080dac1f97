#include "tpu/program/convert.h"

#include <gtest/gtest.h>

#include "tpu/program/wire.h"

namespace torus::program {
namespace {

constexpr protozero::pbf_tag_type kTupled = 2, kBuild = 3, kOverrides = 7;

TEST(ConversionOptions, KeepTheCallersButForDevicesAndOverrides) {
  std::string own;
  protozero::pbf_writer writer(own);
  writer.add_bool(kTupled, true);
  {
    protozero::pbf_writer build(writer, kBuild);
    build.add_int64(5, 8);           // num_partitions
    build.add_bool(6, true);         // use_spmd_partitioning
    build.add_string(9, "devices");  // device_assignment
    build.add_bool(19, true);        // use_shardy_partitioner
  }
  protozero::pbf_writer(writer, kOverrides).add_string(1, "xla_tpu_x");
  const auto options = ConversionOptions(own, "/dev/shm/x");
  EXPECT_EQ(wire::FindInt(options, kTupled), 1);
  const auto build = wire::FindBytes(options, kBuild);
  ASSERT_TRUE(build);
  EXPECT_EQ(wire::FindInt(*build, 5), 2);
  EXPECT_EQ(wire::FindInt(*build, 6), 0);
  EXPECT_EQ(wire::FindBytes(*build, 9), std::nullopt);
  EXPECT_EQ(wire::FindInt(*build, 19), 1);
  const auto overrides = wire::FindAllBytes(options, kOverrides);
  ASSERT_EQ(overrides.size(), 2u);
  EXPECT_EQ(wire::FindBytes(overrides[0], 1), "xla_dump_to");
}

}  // namespace
}  // namespace torus::program
