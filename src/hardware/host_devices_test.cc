#include "hardware/host_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace torus::hardware {
namespace {

using ::testing::ElementsAre;

const Generation& Of(const char* name) { return *Catalogue::BuiltIn().FindGeneration(name); }

std::vector<std::string> Addresses(const char* generation, int chips) {
  std::vector<std::string> addresses;
  for (const auto& function : PciFunctions(Of(generation), chips))
    addresses.push_back(fmt::format("{} {}", function.address, function.iommu_group));
  return addresses;
}

TEST(HostDevices, AChipIsAFunctionAndAFile) {
  EXPECT_THAT(Addresses("v5e", 2), ElementsAre("0000:00:04.0 0", "0000:00:05.0 1"));
  EXPECT_THAT(DeviceFiles(Of("v5e"), 7), ElementsAre("vfio/7"));
  EXPECT_THAT(DeviceFiles(Of("v2"), 3), ElementsAre("vfio/3", "accel3"));
}

TEST(HostDevices, ACoreOfTpu7xIsAFunctionOfItsOwn) {
  EXPECT_THAT(Addresses("tpu7x", 2),
              ElementsAre("0000:00:04.0 0", "0000:00:04.1 1", "0000:00:05.0 2", "0000:00:05.1 3"));
  EXPECT_THAT(DeviceFiles(Of("tpu7x"), 1), ElementsAre("vfio/2", "vfio/3"));
}

TEST(HostDevices, IdsTellEveryGeneration) {
  std::set<std::string> ids;
  for (const auto& generation : Catalogue::BuiltIn().generations())
    EXPECT_TRUE(ids.insert(generation.pci_device + generation.pci_subsystem).second);
}

}  // namespace
}  // namespace torus::hardware
