#include "worker/pci_tree.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>

#include "base/fault.h"
#include "base/file.h"
#include "hardware/host_devices.h"

namespace torus::worker {
namespace {

Status WriteFunction(const std::string& folder, const hardware::Generation& generation, int group,
                     uint32_t owner) {
  TORUS_RETURN_IF_ERROR(MakeFolders(folder, 0755));
  const std::map<std::string, std::string> files = {
      {"vendor", hardware::kGooglePciVendor},
      {"device", generation.pci_device},
      {"subsystem_vendor", hardware::kGooglePciVendor},
      {"subsystem_device", generation.pci_subsystem},
      {"class", "0xff0000"},  // "unassigned", as a TPU's is
  };
  for (const auto& [name, value] : files) {
    const std::string path = folder + "/" + name;
    if (ReadFile(path) == value + "\n") continue;
    TORUS_RETURN_IF_ERROR(WriteFile(path, value + "\n", {.mode = 0444, .owner = owner}));
  }
  // Readers take the group from the link's text: it leads nowhere.
  const std::string link = folder + "/iommu_group";
  const std::string target = fmt::format("../../../../kernel/iommu_groups/{}", group);
  if (symlink(target.c_str(), link.c_str()) != 0 && errno != EEXIST)
    return ErrnoStatus(errno, "make the link", link);
  return {};
}

}  // namespace

Status WritePciTree(const std::string& share, const hardware::AcceleratorType& type,
                    uint32_t owner) {
  const std::string devices = share + "/" + kPciDevices;
  TORUS_RETURN_IF_ERROR(MakeFolders(devices, 0755));
  FaultPoint("worker.pci_tree");
  for (const auto& [address, group] :
       hardware::PciFunctions(*type.generation, type.host_topology.count()))
    TORUS_RETURN_IF_ERROR(WriteFunction(devices + "/" + address, *type.generation, group, owner));
  return {};
}

}  // namespace torus::worker
