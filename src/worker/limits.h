// How much of the host a VM may use. What the order leaves open follows the host's size:
//
//   memory      80 % of the host's memory
//   CPU         all cores, at half the weight of the host's own processes
//   processes   a quarter of the kernel's pid_max, 16,384 at most (threads count)
//   disk        100 GiB, as a TPU VM's boot disk; the host's space is taken as it fills (disk.h)
//   open files  1,048,576, or what the host allows (fs.nr_open; the worker's own limit where it has
//               no CAP_SYS_RESOURCE) when that is less
//   /dev/shm    half of the VM's memory; /run a tenth
//
// Pure but for ReadHostSize. Sizes are bytes. Thread-safety: values.
#ifndef TORUS_WORKER_LIMITS_H_
#define TORUS_WORKER_LIMITS_H_

#include <cstdint>

namespace torus::worker {

struct HostSize {
  int64_t memory = 0;
  int64_t pid_max = 32768;
  int64_t open_files_max = 1 << 20;
  int64_t mtu = 1500;    // of the interface that the default route leaves by
  bool has_ipv6 = true;  // the kernel has it at all
  bool has_pci = true;   // sysfs shows a PCI bus
};

HostSize ReadHostSize();

struct Limits {
  int64_t memory = 0;
  int64_t cpu_millicores = 0;  // 0: no quota
  int64_t processes = 0;
  int64_t open_files = 0;
  int64_t disk = 0;  // made so; a later order does not change it
  bool operator==(const Limits&) const = default;
};

// A positive request is taken as it is; 0 takes the default.
Limits ResolveLimits(const HostSize& host, int64_t memory, int64_t cpu_millicores,
                     int64_t processes, int64_t disk);

}  // namespace torus::worker

#endif  // TORUS_WORKER_LIMITS_H_
