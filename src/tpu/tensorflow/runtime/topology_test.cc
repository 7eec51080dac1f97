#include "tpu/tensorflow/runtime/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware/catalogue.h"
#include "tpu/tensorflow/runtime/testing.h"

namespace torus::tensorflow {
namespace {

using ::testing::ElementsAre;

using TopologyTest = TpuTest;

TEST_F(TopologyTest, HasTheCoresOfTheWholeSliceByTheirIds) {
  const auto& topology = Topology::Get();
  EXPECT_EQ(topology.why, "");
  ASSERT_EQ(topology.cores.size(), 16u);
  for (int id = 0; id < 16; ++id) EXPECT_EQ(topology.cores[id].id, id);
  EXPECT_THAT(topology.bounds, ElementsAre(4, 2, 1));
  EXPECT_EQ(topology.cores_per_chip, 2);
  EXPECT_EQ(topology.chips(), 8);
  EXPECT_EQ(topology.kind, "TPU v2");
  EXPECT_EQ(topology.hbm_bytes,
            hardware::Catalogue::BuiltIn().FindGeneration("v2")->usable_hbm_bytes);
  EXPECT_EQ(topology.accelerator_type, "v2-16");
}

TEST_F(TopologyTest, FindsACoreByItsPlace) {
  const auto& topology = Topology::Get();
  ASSERT_NE(topology.At(1, 1, 0, 1), nullptr);
  EXPECT_EQ(topology.At(1, 1, 0, 1)->id, 11);
  EXPECT_EQ(topology.At(4, 0, 0, 0), nullptr);
  EXPECT_EQ(topology.At(0, 0, 0, 2), nullptr);
}

}  // namespace
}  // namespace torus::tensorflow
