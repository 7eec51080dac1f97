// The TPU chips of a VM as sysfs shows them on a real TPU VM's PCI bus: tpu-info, PyTorch and JAX
// look for Google's vendor id there.
//
// The tree takes the place of the host's own list of PCI devices, which the VM then does not see.
#ifndef TORUS_WORKER_PCI_TREE_H_
#define TORUS_WORKER_PCI_TREE_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "hardware/catalogue.h"

namespace torus::worker {

// Below the VM's share: laid over /sys/bus, or over just the devices where the host has that
// folder.
inline constexpr char kPciBus[] = "bus";
inline constexpr char kPciDevices[] = "bus/pci/devices";

// Makes <share>/bus/pci/devices hold a folder for each PCI function of one host of `type`. What is
// already right is not touched. REQUIRES: it held no other type's before.
Status WritePciTree(const std::string& share, const hardware::AcceleratorType& type,
                    uint32_t owner);

}  // namespace torus::worker

#endif  // TORUS_WORKER_PCI_TREE_H_
