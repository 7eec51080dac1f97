#include "worker/mounts.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "worker/disk.h"
#include "worker/oci_config.h"
#include "worker/vm_paths.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;

// Mounts a clone of `source` at `target`, its owners shifted. UNIMPLEMENTED when this kernel or
// file system cannot.
Status MountShifted(const std::string& source, const std::string& target, int user_namespace) {
  const int tree = static_cast<int>(
      syscall(SYS_open_tree, AT_FDCWD, source.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (tree < 0) {
    if (errno == ENOSYS || errno == EPERM) return Unimplemented("open_tree is refused");
    return ErrnoStatus(errno, "clone the mount of", source);
  }
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<uint64_t>(user_namespace);
  int error = 0;
  if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0)
    error = errno;
  const bool shifted = error == 0;
  if (shifted &&
      syscall(SYS_move_mount, tree, "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
    error = errno;
  close(tree);
  if (error == 0) return {};
  if (!shifted && (error == ENOSYS || error == EINVAL || error == EPERM || error == EOPNOTSUPP))
    return Unimplemented("idmapped mounts are not supported for {}", source);
  return ErrnoStatus(error, "mount with shifted owners", source);
}

// Shifts the owner of every file of a tree of ours.
Status ShiftOwners(const std::string& tree, uint32_t uid_base) {
  const auto shift = [&](const fs::path& path) -> Status {
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "look at", path);
    if (lchown(path.c_str(), uid_base + info.st_uid, uid_base + info.st_gid) != 0)
      return ErrnoStatus(errno, "change the owner of", path);
    // A change of owner clears the setuid bits.
    if (!S_ISLNK(info.st_mode) && (info.st_mode & 06000) != 0 &&
        chmod(path.c_str(), info.st_mode & 07777) != 0)
      return ErrnoStatus(errno, "set the mode of", path);
    return {};
  };
  TORUS_RETURN_IF_ERROR(shift(tree));
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(tree, error); !error && it != fs::end(it);
       it.increment(error))
    TORUS_RETURN_IF_ERROR(shift(it->path()));
  if (error) return ErrnoStatus(error.value(), "walk", tree);
  return {};
}

// The image with shifted owners as a folder of the VM's own, made once.
Result<std::string> CopyShifted(const RootPlan& plan) {
  const std::string base = plan.disk + "/base", making = base + ".making";
  std::error_code error;
  if (fs::is_directory(base, error)) return base;
  spdlog::warn("idmapped mounts are missing: copying the image, which takes a while");
  TORUS_RETURN_IF_ERROR(RemoveTree(making));
  TORUS_RETURN_IF_ERROR(RunChecked({"cp", "-a", "--reflink=auto", plan.image_root, making},
                                   {.timeout = std::chrono::minutes(10)}));
  TORUS_RETURN_IF_ERROR(ShiftOwners(making, plan.uid_base));
  FaultPoint("worker.copy_image");
  if (rename(making.c_str(), base.c_str()) != 0) return Error(ErrnoStatus(errno, "rename", making));
  return base;
}

Status Mount(const char* type, const std::string& source, const std::string& target,
             unsigned long flags, const std::string& options = "") {
  if (mount(source.c_str(), target.c_str(), type, flags, options.c_str()) == 0) return {};
  return ErrnoStatus(errno, fmt::format("mount {} at", source), target);
}

// The overlay over whatever stands at <stage>/lower. A device's file in it is no device.
Status MountOverlay(const Stage& stage, const std::string& lower) {
  return Mount("overlay", "overlay", stage.root, MS_NODEV,
               fmt::format("lowerdir={},upperdir={}/disk/upper,workdir={}/disk/work", lower,
                           stage.folder, stage.folder));
}

// Mounts the root: shifted in place, or from a shifted copy.
Status MountRoot(const RootPlan& plan, const Stage& stage) {
  const std::string lower = stage.folder + "/lower";
  Status status = MountShifted(plan.image_root, lower, plan.user_namespace);
  FaultPoint("worker.mount_lower");
  if (status.ok()) {
    status = MountOverlay(stage, lower);
    if (status.ok()) return {};
    // Kernels before 5.19 have idmapped mounts but no overlay over them.
    umount2(lower.c_str(), MNT_DETACH);
  } else if (status.code() != Code::kUnimplemented) {
    return status;
  }
  TORUS_ASSIGN_OR_RETURN(const std::string base, CopyShifted(plan));
  TORUS_RETURN_IF_ERROR(Mount("none", base, lower, MS_BIND));
  return MountOverlay(stage, lower);
}

// Mounts what the VM's own layer is kept on: its disk, or a folder where that cannot be.
Status MountStorage(const RootPlan& plan, const std::string& target) {
  const std::string file = VmPaths::DiskFile(plan.disk);
  std::error_code error;
  if (!fs::exists(plan.disk + "/upper", error)) {
    const bool is_new = !fs::exists(file, error);
    Status status = MakeDisk(file, plan.disk_bytes);
    if (status.ok()) status = MountDisk(file, target);
    if (status.code() != Code::kUnimplemented) return status;
    if (!is_new)
      return FailedPrecondition("the VM's disk cannot be mounted any more: {}", status.message());
    spdlog::warn("the VM can fill the host's disk: it has none of its own, since {}",
                 status.message());
    unlink(file.c_str());
  }
  return Mount("none", plan.disk, target, MS_BIND);
}

// The VM's own layer: its top is the VM's root folder, owned by the VM's root.
Status PrepareLayer(const std::string& folder, uint32_t uid_base) {
  for (const char* name : {"/upper", "/work"})
    TORUS_RETURN_IF_ERROR(MakeFolders(folder + name, 0755));
  const std::string upper = folder + "/upper";
  if (chown(upper.c_str(), uid_base, uid_base) != 0)
    return ErrnoStatus(errno, "change the owner of", upper);
  return {};
}

Status FillStage(const RootPlan& plan, const Stage& stage) {
  for (const char* name : {"/disk", "/lower", "/share", "/tpu"})
    TORUS_RETURN_IF_ERROR(MakeFolders(stage.folder + name, 0755));
  TORUS_RETURN_IF_ERROR(MountStorage(plan, stage.folder + "/disk"));
  TORUS_RETURN_IF_ERROR(PrepareLayer(stage.folder + "/disk", plan.uid_base));
  TORUS_RETURN_IF_ERROR(Mount("none", plan.share, stage.share(), MS_BIND));
  TORUS_RETURN_IF_ERROR(Mount("none", plan.tpu, stage.tpu(), MS_BIND));
  TORUS_RETURN_IF_ERROR(MountRoot(plan, stage));
  FaultPoint("worker.mount_root");
  return {};
}

}  // namespace

namespace internal {

Result<Stage> PickStage(const std::vector<std::string>& paths) {
  std::vector<std::string> free;
  for (const std::string folder : {"/media", "/srv", "/mnt", "/opt"}) {
    std::error_code error;
    const bool taken = std::ranges::any_of(
        paths, [&](const std::string& path) { return (path + "/").starts_with(folder + "/"); });
    if (!taken && fs::is_directory(folder, error)) free.push_back(folder);
  }
  if (free.size() >= 2) return Stage{.folder = free[0], .root = free[1]};
  return FailedPrecondition(
      "no folder is free to mount a VM's root at: need two of /media, /srv, /mnt and /opt without "
      "Torus's files in them");
}

}  // namespace internal

Status EnterPrivateMounts() {
  if (unshare(CLONE_NEWNS) != 0) return ErrnoStatus(errno, "make", "a mount namespace");
  // Unmounts on the host reach here, mounts here never reach the host.
  if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    return ErrnoStatus(errno, "make private", "/");
  return {};
}

Result<Stage> MountStage(const RootPlan& plan) {
  std::error_code missing;
  if (!fs::is_directory(plan.image_root, missing))
    return NotFound("the base image {} is missing", plan.image_root);
  TORUS_RETURN_IF_ERROR(MakeFolders(plan.disk, 0700));
  TORUS_ASSIGN_OR_RETURN(const Stage stage,
                         internal::PickStage({plan.image_root, plan.disk, plan.share, plan.tpu}));
  TORUS_RETURN_IF_ERROR(
      Mount("tmpfs", "torus", stage.folder, MS_NOSUID | MS_NODEV, "mode=755,size=1m"));
  if (const Status status = FillStage(plan, stage); !status.ok()) {
    UnmountStage(stage);
    return Error(status);
  }
  return stage;
}

void UnmountStage(const Stage& stage) {
  // The root may not have been mounted yet.
  umount2(stage.root.c_str(), MNT_DETACH);
  if (umount2(stage.folder.c_str(), MNT_DETACH) != 0)
    spdlog::warn("cannot unmount {}: {}", stage.folder, std::strerror(errno));
}

}  // namespace torus::worker
