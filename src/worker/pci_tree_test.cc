#include "worker/pci_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;

TEST(PciTree, HasTheIdsAndTheGroupOfEveryChip) {
  char name[] = "/tmp/torus-pci-test-XXXXXX";
  const std::string share = mkdtemp(name);
  const auto* type = hardware::Catalogue::BuiltIn().FindAcceleratorType("v2-32");
  for (int times = 0; times < 2; ++times)  // it is written again whenever the VM is refreshed
    ASSERT_TRUE(WritePciTree(share, *type, getuid()).ok());
  int chips = 0;
  for (const auto& device : fs::directory_iterator(share + "/bus/pci/devices")) {
    const std::string folder = device.path();
    EXPECT_EQ(ReadFile(folder + "/vendor"), "0x1ae0\n");
    EXPECT_EQ(ReadFile(folder + "/device"), "0x0027\n");
    EXPECT_EQ(ReadFile(folder + "/subsystem_device"), "0x004e\n");
    EXPECT_TRUE(fs::is_symlink(folder + "/iommu_group"));
    ++chips;
  }
  EXPECT_EQ(chips, 4) << "of this host, not of the slice";
  EXPECT_EQ(fs::read_symlink(share + "/bus/pci/devices/0000:00:07.0/iommu_group").filename(), "3");
  EXPECT_TRUE(RemoveTree(share).ok());
}

}  // namespace
}  // namespace torus::worker
