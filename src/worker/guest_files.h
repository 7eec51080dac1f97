// What the worker hands into a VM at /run/torus, read-only: scripts, the slice's description, names
// and resolvers, and the keys of those who may log in.
//
// The folder is the host's own and the VM sees it through a read-only bind mount, so writing it
// never follows a path that a VM's root controls. What must stand in the VM's own files (/etc/hosts
// …) the boot script copies from inside. The texts are pure.
#ifndef TORUS_WORKER_GUEST_FILES_H_
#define TORUS_WORKER_GUEST_FILES_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "worker.pb.h"
#include "worker/accounts.h"

namespace torus::worker {

Metadata NodeMetadata(const VmSpec& vm);
Metadata ProjectMetadata(const VmSpec& vm);

// Compute Engine's full name of the VM: "host.zone.c.project.internal".
std::string FullHostName(const VmSpec& vm);

std::string HostsFile(const VmSpec& vm);

// The slice as libtpu.so and the tpu-env attribute tell it. `memory_limit` in bytes.
std::string SliceText(const VmSpec& vm, int64_t memory_limit);

// The configuration that the image's sshd was made with, in one file: /etc/ssh/sshd_config with
// what it includes. The VM's sshd runs on this one, handed in read-only, so that no file in the VM
// can shut everybody out. NOT_FOUND when the image or its configuration is missing.
Result<std::string> ImageSshdConfig(const std::string& image_root);

// The files below /dev that stand for the VM's chips, one a line (hardware/host_devices.h).
std::string DeviceList(const VmSpec& vm);

// Every file of the folder but sshd_config, by its path in it, keys included.
std::map<std::string, std::string> GuestFiles(const VmSpec& vm, const Accounts& accounts,
                                              int64_t memory_limit, const std::string& resolvers);

// Makes the folder hold exactly these files, and nothing else but `hostkeys` and the PCI tree;
// owned by `owner`, readable by all in the VM. Files that are already right are not touched.
Status WriteGuestFiles(const std::string& folder, const std::map<std::string, std::string>& files,
                       uint32_t owner);

}  // namespace torus::worker

#endif  // TORUS_WORKER_GUEST_FILES_H_
