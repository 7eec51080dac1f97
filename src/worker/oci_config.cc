#include "worker/oci_config.h"

#include <fmt/format.h>

#include "worker/pci_tree.h"
#include "worker/seccomp.h"

namespace torus::worker {
namespace {

using Json = nlohmann::json;

Json Capabilities() {
  const Json names = {"CAP_AUDIT_WRITE", "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",
                      "CAP_FSETID",      "CAP_KILL",   "CAP_SETFCAP",      "CAP_SETGID",
                      "CAP_SETPCAP",     "CAP_SETUID", "CAP_SYS_CHROOT",   "CAP_NET_BIND_SERVICE"};
  return {{"bounding", names}, {"effective", names}, {"permitted", names}};
}

Json Process() {
  return {{"terminal", false},
          {"user", {{"uid", 0}, {"gid", 0}}},
          {"args", {"/usr/bin/tini", "--", "/bin/sh", "/run/torus/boot"}},
          {"env",
           {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}},
          {"cwd", "/"},
          {"capabilities", Capabilities()},
          // When the whole host is out of memory, what ends is in a VM.
          {"oomScoreAdj", 500},
          {"noNewPrivileges", false}};
}

Json Mount(const char* where, const char* type, const std::string& source, Json options) {
  return {{"destination", where}, {"type", type}, {"source", source}, {"options", options}};
}

// The VM's chips over the host's PCI devices (pci_tree.h). A folder of sysfs cannot be made.
Json PciMount(const SandboxConfig& config) {
  const Json options = {"bind", "ro", "nosuid", "nodev", "noexec"};
  if (config.has_pci)
    return Mount("/sys/bus/pci/devices", "bind", config.share + "/" + kPciDevices, options);
  return Mount("/sys/bus", "bind", config.share + "/" + kPciBus, options);
}

Json Mounts(const SandboxConfig& config) {
  const auto size = [](int64_t bytes) { return fmt::format("size={}", bytes); };
  return {
      Mount("/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}),
      Mount("/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}),
      Mount("/dev/pts", "devpts", "devpts",
            {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}),
      Mount("/dev/shm", "tmpfs", "shm",
            {"nosuid", "nodev", "mode=1777", size(config.limits.memory / 2)}),
      Mount("/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}),
      Mount("/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", "ro"}),
      PciMount(config),
      Mount("/sys/fs/cgroup", "cgroup", "cgroup", {"nosuid", "noexec", "nodev", "relatime", "ro"}),
      Mount("/run", "tmpfs", "tmpfs",
            {"nosuid", "nodev", "mode=755", size(config.limits.memory / 10)}),
      Mount("/run/torus", "bind", config.share, {"bind", "ro", "nosuid", "nodev"}),
      Mount("/opt/torus", "bind", config.tpu, {"bind", "ro", "nosuid", "nodev"}),
  };
}

Json Resources(const Limits& limits) {
  Json resources = {
      {"devices", {{{"allow", false}, {"access", "rwm"}}}},
      {"memory", {{"limit", limits.memory}}},
      {"cpu", {{"shares", 512}}},
      {"pids", {{"limit", limits.processes}}},
  };
  if (limits.cpu_millicores > 0) {
    constexpr int64_t kPeriodMicroseconds = 100'000;
    resources["cpu"]["period"] = kPeriodMicroseconds;
    resources["cpu"]["quota"] = limits.cpu_millicores * kPeriodMicroseconds / 1000;
  }
  return resources;
}

// The kernel's settings of the VM's own network: plain `ping`, and no IPv6 (docs/tpu_vm.md).
Json Settings(bool has_ipv6) {
  Json settings = {{"net.ipv4.ping_group_range", "0 65535"}};
  if (has_ipv6) settings["net.ipv6.conf.all.disable_ipv6"] = "1";
  return settings;
}

Json Linux(const SandboxConfig& config) {
  const Json ids = {{{"containerID", 0}, {"hostID", config.uid_base}, {"size", kUidCount}}};
  Json namespaces = Json::array();
  for (const char* type : {"mount", "pid", "uts", "ipc", "network", "cgroup"})
    namespaces.push_back({{"type", type}});
  namespaces.push_back({{"type", "user"}, {"path", config.user_namespace}});
  return {{"namespaces", namespaces},
          {"uidMappings", ids},
          {"gidMappings", ids},
          {"cgroupsPath", "/" + config.cgroup},
          {"resources", Resources(config.limits)},
          {"sysctl", Settings(config.has_ipv6)},
          {"seccomp", SeccompProfile()},
          {"maskedPaths",
           {"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
            "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
            "/proc/kallsyms", "/proc/kmsg", "/proc/config.gz", "/sys/firmware",
            "/sys/devices/virtual/powercap", "/sys/devices/virtual/block", "/sys/kernel/security"}},
          {"readonlyPaths",
           {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}}};
}

}  // namespace

Json OciConfig(const SandboxConfig& config) {
  return {{"ociVersion", "1.0.2"},
          {"process", Process()},
          {"root", {{"path", config.root}, {"readonly", false}}},
          {"hostname", config.host_name},
          {"mounts", Mounts(config)},
          {"linux", Linux(config)}};
}

}  // namespace torus::worker
