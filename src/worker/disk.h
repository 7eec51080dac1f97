// A VM's disk: an ext4 file system of its own in a sparse file, so that a VM fills its disk and not
// the host's.
//
// The file is mounted through a loop device that the kernel takes away with the last mount; mounts
// are the worker's own and the sandbox's (mounts.h), so a kill at any point leaves neither. The
// host's space is taken as the VM writes: the disks of many VMs may promise more than the host has.
// A DiskKeeper therefore makes a VM's disk full before the host's is.
//
// Thread-safe: nothing is remembered but in a DiskKeeper's own thread.
#ifndef TORUS_WORKER_DISK_H_
#define TORUS_WORKER_DISK_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "base/status.h"

namespace torus::worker {

// Makes the disk's file unless there is one. UNIMPLEMENTED without mkfs.ext4, RESOURCE_EXHAUSTED
// when the host has no space for another VM.
Status MakeDisk(const std::string& file, int64_t bytes);

// Mounts it. UNIMPLEMENTED when this host has no loop devices. REQUIRES: EnterPrivateMounts.
Status MountDisk(const std::string& file, const std::string& target);

// Waits until no mount has the file any more, and all of it is written: mounted a second time it
// would be destroyed, and removed it would still take space. DEADLINE_EXCEEDED after `limit`.
Status AwaitUnmounted(const std::string& file, std::chrono::milliseconds limit);

// Keeps some of the host's space free: how much of its disk a VM may still fill follows, while this
// lives, what the host has left. A disk that is not mounted, or not there, is waited for.
class DiskKeeper {
 public:
  explicit DiskKeeper(std::string file);

 private:
  std::jthread thread_;
};

namespace internal {

// Of a file system, in bytes.
struct Space {
  int64_t size = 0;
  int64_t free = 0;
};

// What a VM may yet take, whose disk takes `taken` of the host's space already; negative when it
// has too much. Some is kept for the host; of that, a VM that has taken little may have half, so
// that one that fills all there is does not stop the others' logs and logins.
int64_t Allowance(const Space& host, int64_t taken);

// Why a loop device could not be had. UNIMPLEMENTED: this host has none for us. UNAVAILABLE: a
// trouble that passes; the VM waits for its disk, rather than to be without one for ever.
Status LoopStatus(int error, const std::string& what);

}  // namespace internal
}  // namespace torus::worker

#endif  // TORUS_WORKER_DISK_H_
