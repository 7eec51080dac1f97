// The VM's root file system: the image as a read-only lower layer, its owners shifted into the VM's
// uid range by an idmapped mount, under the VM's own writable layer.
//
// Mounts live in a mount namespace of the worker's own and are cloned from there into the sandbox,
// so none is ever seen on the host, and none is left when the worker dies. They are put under a
// "stage", a tmpfs over a standard folder of that namespace, and the root over another, so that a
// VM's root needs no way through the (private) data folder.
//
// The writable layer is on a disk of the VM's own (disk.h). Where the host has no loop devices it
// is a folder of the host's, whose only bound is the host's own disk, and the log says so.
//
// Where the kernel or file system lacks idmapped mounts, the image is copied once into
// <disk>/base with shifted owners: slower and larger, the same afterwards.
#ifndef TORUS_WORKER_MOUNTS_H_
#define TORUS_WORKER_MOUNTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace torus::worker {

// Gives the calling process its own view of the host's mounts. REQUIRES: one thread.
Status EnterPrivateMounts();

struct RootPlan {
  std::string image_root;  // absolute, never changed
  std::string disk;        // has or gets the disk's file, or upper/ and work/
  int64_t disk_bytes = 0;  // its size, when it is made
  std::string share;
  std::string tpu;
  uint32_t uid_base = 0;
  int user_namespace = -1;  // one that maps 0 to uid_base
};

// The paths, in this process's namespace, to give to runc.
struct Stage {
  std::string folder;
  std::string root;  // a folder that is there without the stage too: `runc exec` goes to it first
  std::string share() const { return folder + "/share"; }
  std::string tpu() const { return folder + "/tpu"; }
};

// Mounts everything; on an error nothing stays mounted. NOT_FOUND when the image is missing,
// RESOURCE_EXHAUSTED when the disk is full. REQUIRES: EnterPrivateMounts.
Result<Stage> MountStage(const RootPlan& plan);

// Takes the stage down again; what a sandbox has cloned from it lives on.
void UnmountStage(const Stage& stage);

namespace internal {

// The first two standard folders that none of `paths` lies in.
Result<Stage> PickStage(const std::vector<std::string>& paths);

}  // namespace internal
}  // namespace torus::worker

#endif  // TORUS_WORKER_MOUNTS_H_
