// How the chips of a host look to programs that search for them: functions on the PCI bus, and
// files below /dev. tpu-info, PyTorch, JAX and Ray count chips by either.
//
// Pure. Thread-safety: values.
#ifndef TORUS_HARDWARE_HOST_DEVICES_H_
#define TORUS_HARDWARE_HOST_DEVICES_H_

#include <string>
#include <vector>

#include "hardware/catalogue.h"

namespace torus::hardware {

inline constexpr char kGooglePciVendor[] = "0x1ae0";

struct PciFunction {
  std::string address;  // "0000:00:04.0"
  int iommu_group = 0;  // /dev/vfio/<group> is its file
};

// The functions of a host's first `chips` chips, chip by chip. REQUIRES: 0 <= chips <= 28.
std::vector<PciFunction> PciFunctions(const Generation& generation, int chips);

// The files below /dev that a host's `chip` has: {"vfio/0", "accel0"}.
std::vector<std::string> DeviceFiles(const Generation& generation, int chip);

}  // namespace torus::hardware

#endif  // TORUS_HARDWARE_HOST_DEVICES_H_
