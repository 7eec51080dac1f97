// The built-in rows against the figures that upstream publishes, and the rules every row keeps.
#include "hardware/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <string>

namespace torus::hardware {
namespace {

using ::testing::HasSubstr;

const Catalogue& BuiltIn() { return Catalogue::BuiltIn(); }

struct Expected {
  const char* type;
  const char* generation;
  const char* topology;
  const char* host;
  int chips, cores, devices, hosts;
};
void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.type; }

class PublishedTypes : public ::testing::TestWithParam<Expected> {};

TEST_P(PublishedTypes, HasTheShape) {
  const Expected& want = GetParam();
  const AcceleratorType* type = BuiltIn().FindAcceleratorType(want.type);
  ASSERT_NE(type, nullptr);
  EXPECT_EQ(type->generation->name, want.generation);
  EXPECT_EQ(type->topology.ToString(), want.topology);
  EXPECT_EQ(type->host_topology.ToString(), want.host);
  EXPECT_EQ(type->chips, want.chips);
  EXPECT_EQ(type->cores, want.cores);
  EXPECT_EQ(type->devices, want.devices);
  EXPECT_EQ(type->hosts, want.hosts);
}

INSTANTIATE_TEST_SUITE_P(
    Catalogue, PublishedTypes,
    ::testing::Values(Expected{"v2-8", "v2", "2x2", "2x2", 4, 8, 8, 1},
                      Expected{"v2-32", "v2", "4x4", "2x2", 16, 32, 32, 4},
                      Expected{"v2-512", "v2", "16x16", "2x2", 256, 512, 512, 64},
                      Expected{"v3-8", "v3", "2x2", "2x2", 4, 8, 8, 1},
                      Expected{"v3-2048", "v3", "32x32", "2x2", 1024, 2048, 2048, 256},
                      Expected{"v4-8", "v4", "2x2x1", "2x2x1", 4, 8, 4, 1},
                      Expected{"v4-16", "v4", "2x2x2", "2x2x1", 8, 16, 8, 2},
                      Expected{"v4-32", "v4", "2x2x4", "2x2x1", 16, 32, 16, 4},
                      Expected{"v4-8192", "v4", "16x16x16", "2x2x1", 4096, 8192, 4096, 1024},
                      Expected{"v5litepod-1", "v5e", "1x1", "1x1", 1, 1, 1, 1},
                      Expected{"v5litepod-4", "v5e", "2x2", "2x2", 4, 4, 4, 1},
                      Expected{"v5litepod-8", "v5e", "2x4", "2x4", 8, 8, 8, 1},
                      Expected{"v5litepod-16", "v5e", "4x4", "2x2", 16, 16, 16, 4},
                      Expected{"v5litepod-256", "v5e", "16x16", "2x2", 256, 256, 256, 64},
                      Expected{"v5p-8", "v5p", "2x2x1", "2x2x1", 4, 8, 4, 1},
                      Expected{"v5p-12288", "v5p", "16x16x24", "2x2x1", 6144, 12288, 6144, 1536},
                      Expected{"v6e-1", "v6e", "1x1", "1x1", 1, 1, 1, 1},
                      Expected{"v6e-8", "v6e", "2x4", "2x4", 8, 8, 8, 1},
                      Expected{"v6e-256", "v6e", "16x16", "2x2", 256, 256, 256, 64},
                      Expected{"tpu7x-8", "tpu7x", "2x2x1", "2x2x1", 4, 8, 8, 1},
                      Expected{"tpu7x-18432", "tpu7x", "16x24x24", "2x2x1", 9216, 18432, 18432,
                               2304}),
    [](const auto& each) {
      std::string name = each.param.type;
      std::ranges::replace(name, '-', '_');
      return name;
    });

TEST(Catalogue, NamesAreUnique) {
  std::set<std::string> names;
  for (const auto& type : BuiltIn().accelerator_types())
    EXPECT_TRUE(names.insert(type.name).second) << type.name;
  for (const auto& zone : BuiltIn().zones()) EXPECT_TRUE(names.insert(zone.name).second);
  for (const auto& version : BuiltIn().runtime_versions())
    EXPECT_TRUE(names.insert(version.name).second) << version.name;
}

TEST(Catalogue, EveryGenerationIsWhole) {
  ASSERT_EQ(BuiltIn().generations().size(), 7u);
  for (const auto& generation : BuiltIn().generations()) {
    SCOPED_TRACE(generation.name);
    EXPECT_GT(generation.peak_bf16_flops, 0);
    EXPECT_GT(generation.hbm_bandwidth, 0);
    EXPECT_GT(generation.usable_hbm_bytes, 0);
    EXPECT_GT(generation.vector_memory_bytes, 0);
    EXPECT_LE(generation.usable_hbm_bytes * generation.devices_per_chip, generation.hbm_bytes);
    EXPECT_EQ(generation.cores_per_chip % generation.devices_per_chip, 0);
    EXPECT_EQ(BuiltIn().FindGeneration(generation.name), &generation);
  }
}

TEST(Catalogue, TypesAreTiledByHostsAndOrderedBySize) {
  const AcceleratorType* before = nullptr;
  for (const auto& type : BuiltIn().accelerator_types()) {
    SCOPED_TRACE(type.name);
    EXPECT_EQ(type.topology.dimensions, type.generation->dimensions);
    EXPECT_EQ(type.topology.count(), type.chips);
    EXPECT_EQ(type.host_topology.count() * type.hosts, type.chips);
    for (int axis = 0; axis < 3; ++axis)
      EXPECT_EQ(type.topology.chips[axis] % type.host_topology.chips[axis], 0);
    if (before && before->generation == type.generation) {
      EXPECT_LT(before->chips, type.chips);
    }
    before = &type;
  }
}

TEST(Catalogue, ZonesOfferOnlyKnownTypes) {
  for (const auto& zone : BuiltIn().zones()) {
    SCOPED_TRACE(zone.name);
    EXPECT_FALSE(zone.ours);
    EXPECT_FALSE(zone.accelerator_types.empty());
    for (const auto& name : zone.accelerator_types)
      EXPECT_NE(BuiltIn().FindAcceleratorType(name), nullptr) << name;
  }
  EXPECT_TRUE(std::ranges::is_sorted(BuiltIn().zones(), {}, &Zone::name));
}

TEST(Catalogue, TheTutorialsTypeIsOursInUsCentral1A) {
  const Zone* zone = BuiltIn().FindZone("us-central1-a");
  ASSERT_NE(zone, nullptr);
  EXPECT_TRUE(BuiltIn().Offers(*zone, *BuiltIn().FindAcceleratorType("v2-8")));
  EXPECT_THAT(zone->our_types, ::testing::ElementsAre("v2-8"));
  EXPECT_FALSE(BuiltIn().Offers(*zone, *BuiltIn().FindAcceleratorType("v4-8")));
  EXPECT_FALSE(BuiltIn().Offers(*BuiltIn().FindZone("us-central1-b"),
                                *BuiltIn().FindAcceleratorType("v2-32")));
}

TEST(Catalogue, KnowsTheRuntimeVersions) {
  for (const char* name :
       {"tpu-ubuntu2204-base", "tpu-vm-base", "tpu-vm-tf-2.13.0", "tpu-vm-tf-2.13.0-pod",
        "tpu-vm-tf-2.16.1-pjrt", "tpu-vm-tf-2.16.1-pod-pjrt", "v2-alpha-tpuv5-lite",
        "v2-alpha-tpuv5", "v2-alpha-tpuv6e"}) {
    const RuntimeVersion* version = BuiltIn().FindRuntimeVersion(name);
    ASSERT_NE(version, nullptr) << name;
    EXPECT_FALSE(version->ours) << name;
  }
  ASSERT_NE(BuiltIn().FindRuntimeVersion("2.13.0"), nullptr);
  EXPECT_TRUE(BuiltIn().FindRuntimeVersion("2.13.0")->ours);
  EXPECT_EQ(BuiltIn().FindRuntimeVersion("9.9.9"), nullptr);
}

TEST(Catalogue, FindsGenerationsByEitherName) {
  EXPECT_EQ(BuiltIn().FindGeneration("V5LITE_POD"), BuiltIn().FindGeneration("v5e"));
  EXPECT_EQ(BuiltIn().FindGeneration(""), nullptr);
  EXPECT_EQ(BuiltIn().FindGeneration("v1"), nullptr);
}

TEST(Catalogue, FindsByTopologyInAnyOrder) {
  const Generation& v4 = *BuiltIn().FindGeneration("v4");
  auto find = [&](const char* text) { return BuiltIn().FindByTopology(v4, *ParseTopology(text)); };
  ASSERT_NE(find("2x2x4"), nullptr);
  EXPECT_EQ(find("2x2x4")->name, "v4-32");
  EXPECT_EQ(find("4x2x2"), find("2x2x4"));
  ASSERT_NE(find("4x4x16"), nullptr);
  EXPECT_EQ(find("4x4x16")->name, "v4-512");
  EXPECT_EQ(find("3x3x3"), nullptr);
  EXPECT_EQ(find("2x2"), nullptr);
}

TEST(Catalogue, PointersSurviveAMove) {
  Catalogue first = CatalogueBuilder().Build();
  const AcceleratorType* type = first.FindAcceleratorType("v6e-8");
  Catalogue second = std::move(first);
  Catalogue third;
  third = std::move(second);
  EXPECT_EQ(third.FindAcceleratorType("v6e-8"), type);
  EXPECT_EQ(type->generation, third.FindGeneration("v6e"));
}

TEST(Topology, ReadsWhatItPrints) {
  for (const char* text : {"1x1", "2x4", "2x2x1", "16x24x24"}) {
    auto topology = ParseTopology(text);
    ASSERT_TRUE(topology) << text;
    EXPECT_EQ(topology->ToString(), text);
  }
  for (const char* text : {"", "2", "x", "2x", "x2", "2x2x", "2x2x2x2", "0x2", "02x2", "-1x2",
                           "2X2", "2x2 ", "99999999999x1", "2xa", "2 x2"}) {
    auto topology = ParseTopology(text);
    ASSERT_FALSE(topology) << text;
    EXPECT_EQ(topology.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(topology.error().message(), HasSubstr("such as 2x4"));
  }
}

TEST(CatalogueBuilder, TakesAnOperatorsRows) {
  CatalogueBuilder builder;
  EXPECT_TRUE(builder.AddZone("lab-north1-a").ok());
  EXPECT_TRUE(builder.AddOffer("lab-north1-a", "v5e").ok());
  EXPECT_TRUE(builder.AddOffer("lab-north1-a", "v2-8").ok());
  EXPECT_TRUE(builder.AddRuntimeVersion("lab-image-1").ok());
  const Catalogue catalogue = std::move(builder).Build();
  const Zone* zone = catalogue.FindZone("lab-north1-a");
  ASSERT_NE(zone, nullptr);
  EXPECT_TRUE(zone->ours);
  EXPECT_TRUE(catalogue.Offers(*zone, *catalogue.FindAcceleratorType("v5litepod-256")));
  EXPECT_TRUE(catalogue.Offers(*zone, *catalogue.FindAcceleratorType("v2-8")));
  EXPECT_FALSE(catalogue.Offers(*zone, *catalogue.FindAcceleratorType("v2-32")));
  EXPECT_TRUE(catalogue.FindRuntimeVersion("lab-image-1")->ours);
  EXPECT_TRUE(std::ranges::is_sorted(catalogue.zones(), {}, &Zone::name));
}

TEST(CatalogueBuilder, SaysWhatIsValid) {
  CatalogueBuilder builder;
  const Status zone = builder.AddOffer("moon1-a", "v2-8");
  EXPECT_EQ(zone.code(), Code::kNotFound);
  EXPECT_THAT(zone.message(), HasSubstr("us-central1-a"));
  const Status offer = builder.AddOffer("us-central1-a", "v9");
  EXPECT_EQ(offer.code(), Code::kNotFound);
  EXPECT_THAT(offer.message(), HasSubstr("v5e"));
  EXPECT_EQ(builder.AddZone("Moon 1").code(), Code::kInvalidArgument);
  EXPECT_EQ(builder.AddRuntimeVersion("a b").code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace torus::hardware
