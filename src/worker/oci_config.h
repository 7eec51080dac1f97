// The OCI configuration of a VM's sandbox, as runc takes it.
//
// Namespaces: mount, pid, hostname, ipc, network and cgroup, all made by runc in the VM's user
// namespace (one made beforehand is not owned by it: sysfs would not mount).
// Capabilities: runc's default plus what sshd, sudo, apt and useradd need; none that reaches the
// host. Nothing of the host is bound in but folders made for the VM, read-only.
//
// Pure. Thread-safety: values.
#ifndef TORUS_WORKER_OCI_CONFIG_H_
#define TORUS_WORKER_OCI_CONFIG_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "worker/limits.h"

namespace torus::worker {

struct SandboxConfig {
  std::string host_name;
  std::string root;    // the mounted root, as runc sees it
  std::string share;   // bound at /run/torus; its PCI tree, over sysfs's
  std::string tpu;     // bound at /opt/torus
  std::string cgroup;  // a name under the root of each hierarchy
  uint32_t uid_base = 0;
  std::string user_namespace;  // its path
  Limits limits;
  bool has_ipv6 = true;
  bool has_pci = true;  // sysfs has /sys/bus/pci/devices
};

inline constexpr uint32_t kUidCount = 65536;

nlohmann::json OciConfig(const SandboxConfig& config);

}  // namespace torus::worker

#endif  // TORUS_WORKER_OCI_CONFIG_H_
