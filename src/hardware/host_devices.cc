#include "hardware/host_devices.h"

namespace torus::hardware {
namespace {

constexpr int kFirstSlot = 4;  // as Compute Engine's machines have it

}  // namespace

std::vector<PciFunction> PciFunctions(const Generation& generation, int chips) {
  std::vector<PciFunction> functions;
  for (int chip = 0; chip < chips; ++chip) {
    for (int function = 0; function < generation.pci_functions_per_chip; ++function)
      functions.push_back({.address = fmt::format("0000:00:{:02x}.{}", kFirstSlot + chip, function),
                           .iommu_group = chip * generation.pci_functions_per_chip + function});
  }
  return functions;
}

std::vector<std::string> DeviceFiles(const Generation& generation, int chip) {
  std::vector<std::string> files;
  for (int function = 0; function < generation.pci_functions_per_chip; ++function)
    files.push_back(fmt::format("vfio/{}", chip * generation.pci_functions_per_chip + function));
  if (generation.has_accel_files) files.push_back(fmt::format("accel{}", chip));
  return files;
}

}  // namespace torus::hardware
