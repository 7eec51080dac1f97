#include "worker/limits.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace torus::worker {
namespace {

int64_t ReadNumber(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

// The interface of the IPv4 default route; empty when there is none.
std::string DefaultInterface() {
  std::ifstream routes("/proc/net/route");
  std::string line;
  while (std::getline(routes, line)) {
    std::istringstream fields(line);
    std::string interface, destination;
    if (fields >> interface >> destination && destination == "00000000") return interface;
  }
  return {};
}

// Whether this process may raise limits above its own.
bool MayRaiseLimits() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapEff:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> CAP_SYS_RESOURCE & 1) != 0;
  }
  return false;
}

// The most open files that a process may be given here.
int64_t MaxOpenFiles(int64_t otherwise) {
  rlimit own{};
  if (!MayRaiseLimits() && getrlimit(RLIMIT_NOFILE, &own) == 0 && own.rlim_max != RLIM_INFINITY)
    return static_cast<int64_t>(own.rlim_max);
  return ReadNumber("/proc/sys/fs/nr_open", otherwise);
}

}  // namespace

HostSize ReadHostSize() {
  HostSize host;
  host.memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  host.pid_max = ReadNumber("/proc/sys/kernel/pid_max", host.pid_max);
  host.open_files_max = MaxOpenFiles(host.open_files_max);
  host.mtu = ReadNumber("/sys/class/net/" + DefaultInterface() + "/mtu", host.mtu);
  host.has_ipv6 = access("/proc/sys/net/ipv6", F_OK) == 0;
  host.has_pci = access("/sys/bus/pci/devices", F_OK) == 0;
  return host;
}

Limits ResolveLimits(const HostSize& host, int64_t memory, int64_t cpu_millicores,
                     int64_t processes, int64_t disk) {
  return {.memory = memory > 0 ? memory : host.memory / 10 * 8,
          .cpu_millicores = std::max<int64_t>(cpu_millicores, 0),
          .processes = processes > 0 ? processes : std::min<int64_t>(host.pid_max / 4, 16384),
          .open_files = std::min<int64_t>(host.open_files_max, 1 << 20),
          .disk = disk > 0 ? disk : int64_t{100} << 30};
}

}  // namespace torus::worker
