// The host's memory, which holds every device's HBM: is there enough of it?
//
// What a chip would hold may be more than this machine has. Then the program gets
// RESOURCE_EXHAUSTED, and never the kernel's out-of-memory killer. Free memory is the least of
// MemAvailable, what the cgroups (v1 or v2) that hold the process leave, and what the slice's
// description leaves; pages that were promised and not touched yet count as used.
//
// Looking costs some 50 us, so it is done once for every 64 MiB asked for, in one request or many.
// Thread-safety: all methods, from any thread.
#ifndef TORUS_TPU_DEVICE_HOST_MEMORY_H_
#define TORUS_TPU_DEVICE_HOST_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace torus::tpu {

class HostMemory {
 public:
  // Where the kernel tells; a test gives folders of its own.
  struct Roots {
    std::string proc = "/proc";
    std::string cgroup = "/sys/fs/cgroup";
  };
  // An amount and who sets it, such as "MemAvailable".
  struct Bound {
    int64_t bytes = 0;
    std::string by;
  };

  static constexpr int64_t kLookEvery = int64_t{64} << 20;
  // Left to the rest of the process and of the host.
  static constexpr int64_t kReserve = int64_t{128} << 20;

  // `limit_bytes`: what the process may use, or 0. Where /proc tells nothing there is no bound.
  explicit HostMemory(int64_t limit_bytes) : HostMemory(limit_bytes, Roots()) {}
  HostMemory(int64_t limit_bytes, Roots roots);

  // OK if `bytes` more fit. `what` tells the user what asks for them ("jit_step's outputs").
  Status Check(int64_t bytes, const char* what) {
    if (unlooked_.fetch_add(bytes, std::memory_order_relaxed) + bytes < kLookEvery) return Status();
    return LookAndCheck(bytes, what);
  }

  // Pages promised to someone who has not touched them yet.
  void Promise(int64_t bytes) { promised_.fetch_add(bytes, std::memory_order_relaxed); }
  void Settle(int64_t bytes) { promised_.fetch_sub(bytes, std::memory_order_relaxed); }

  // What is free now by the kernel's account, before promises and the reserve.
  Bound Free() const;

 private:
  // A cgroup's folder and its file names, which differ between v1 and v2.
  struct Group {
    std::string folder;
    bool v2;
  };
  void FindGroups();
  void AddGroups(const std::string& root, std::string path, bool v2);
  Status LookAndCheck(int64_t bytes, const char* what);
  int64_t OwnBytes() const;

  const int64_t limit_bytes_;
  const Roots roots_;
  std::vector<Group> groups_;
  std::atomic<int64_t> unlooked_ = kLookEvery;  // the first request looks
  std::atomic<int64_t> promised_ = 0;
};

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_HOST_MEMORY_H_
