#include "worker/disk.h"

#include <endian.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>

#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int64_t kBlock = 4096;
constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;
constexpr int64_t kToBegin = 256 * kMiB;  // with less a VM cannot do anything
// ext4's own reserve, for what it promised to write later.
constexpr int64_t kLeastHeldBlocks = 4096;
constexpr int64_t kFew = 4 * kGiB;  // with less to go, the keeper looks often
constexpr auto kSeldom = milliseconds(500);
constexpr auto kOften = milliseconds(50);
constexpr int kLoopMajor = 7;

Result<internal::Space> SpaceAt(const std::string& path) {
  struct statvfs info;
  if (statvfs(path.c_str(), &info) != 0) return Error(ErrnoStatus(errno, "look at", path));
  const auto unit = static_cast<int64_t>(info.f_frsize);
  return internal::Space{.size = static_cast<int64_t>(info.f_blocks) * unit,
                         .free = static_cast<int64_t>(info.f_bavail) * unit};
}

bool IsDeviceOf(const std::string& device, const struct stat& file) {
  const Fd fd(open(device.c_str(), O_RDONLY | O_CLOEXEC));
  loop_info64 info{};
  return fd && ioctl(fd.get(), LOOP_GET_STATUS64, &info) == 0 && info.lo_device == file.st_dev &&
         info.lo_inode == file.st_ino;
}

// The loop device that has the file, "loop3"; empty: none.
std::string LoopOf(const std::string& file) {
  struct stat info;
  if (stat(file.c_str(), &info) != 0) return {};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/block", error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("loop") || !fs::exists(entry.path() / "loop", error)) continue;
    if (IsDeviceOf("/dev/" + name, info)) return name;
  }
  return {};
}

// A free loop device, opened. In a container the folder of devices may lack its file.
Result<std::pair<std::string, Fd>> FreeLoop() {
  const Fd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  const int number = control ? ioctl(control.get(), LOOP_CTL_GET_FREE) : -1;
  if (number < 0) return Error(internal::LoopStatus(errno, "this host has no loop device to give"));
  std::string device = fmt::format("/dev/loop{}", number);
  (void)mknod(device.c_str(), S_IFBLK | 0600, makedev(kLoopMajor, number));
  Fd fd(open(device.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return Error(internal::LoopStatus(errno, "cannot open " + device));
  return std::pair(std::move(device), std::move(fd));
}

// Gives the file to a loop device that lets go of it when its last user does: the descriptor is
// the first.
Result<std::pair<std::string, Fd>> Attach(const std::string& file) {
  const Fd backing(open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!backing) return Error(ErrnoStatus(errno, "open", file));
  loop_config config{};
  config.fd = static_cast<uint32_t>(backing.get());
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
  for (int tries = 0; tries < 100; ++tries) {
    TORUS_ASSIGN_OR_RETURN(auto loop, FreeLoop());
    if (ioctl(loop.second.get(), LOOP_CONFIGURE, &config) == 0) return loop;
    // Another worker was quicker.
    if (errno != EBUSY) return Error(internal::LoopStatus(errno, "cannot use " + loop.first));
  }
  return Error(Unavailable("every loop device is taken the moment it is free"));
}

// Writes one of the kernel's settings.
Status Set(const std::string& path, int64_t value) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "open", path);
  const std::string text = fmt::format("{}", value);
  if (write(fd.get(), text.data(), text.size()) < 0) return ErrnoStatus(errno, "write", path);
  return {};
}

// Tells ext4 how much of the disk to keep to itself, and the kernel to hold few writes to it in
// memory: the host does not see those yet, so several VMs would take the same space of it.
Status Hold(const std::string& loop, int64_t blocks) {
  const std::string queue = fmt::format("/sys/block/{}/bdi", loop);
  (void)Set(queue + "/strict_limit", 1);  // Linux 6.2 and later
  (void)Set(queue + "/max_ratio", 1);     // of what the kernel would hold in memory at most
  return Set(fmt::format("/sys/fs/ext4/{}/reserved_clusters", loop), blocks);
}

// As a loop device begins, for its next user.
void LetGo(const std::string& loop) {
  const std::string queue = fmt::format("/sys/block/{}/bdi", loop);
  (void)Set(queue + "/max_ratio", 100);
  (void)Set(queue + "/strict_limit", 0);
}

// How much of the disk ext4 has for itself: bitmaps, tables of inodes, journal. They lie in holes
// of the file, most of them for ever.
Result<int64_t> OverheadOf(const std::string& file) {
  constexpr off_t kField = 1024 + 0x248;  // of the superblock, in little-endian blocks
  const Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  uint32_t blocks = 0;
  if (!fd || pread(fd.get(), &blocks, sizeof(blocks), kField) != sizeof(blocks))
    return Error(ErrnoStatus(errno, "read", file));
  return le32toh(blocks) * kBlock;
}

// How many blocks of the disk to hold back, and what the VM may yet fill. The kernel lets it fill
// what is free and not held: held is chosen so that this is the allowance, less what the VM has
// written and the host has not seen.
struct Measure {
  int64_t held = kLeastHeldBlocks;
  int64_t allowance = 0;
};

Result<Measure> MeasureNow(const std::string& file) {
  struct stat info;
  if (stat(file.c_str(), &info) != 0) return Error(ErrnoStatus(errno, "look at", file));
  TORUS_ASSIGN_OR_RETURN(const auto host, SpaceAt(file));
  const int64_t taken = info.st_blocks * 512;
  const int64_t allowance = internal::Allowance(host, taken);
  TORUS_ASSIGN_OR_RETURN(const int64_t overhead, OverheadOf(file));
  const int64_t held = (info.st_size - overhead - taken - allowance) / kBlock;
  return Measure{std::clamp(held, kLeastHeldBlocks, info.st_size / kBlock - 1), allowance};
}

// The keeper's thread.
class Watch {
 public:
  explicit Watch(std::string file) : file_(std::move(file)) {}

  void Run(const std::stop_token& stop) {
    prctl(PR_SET_NAME, "disk");
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    while (!stop.stop_requested()) wake.wait_for(lock, stop, Look(), [] { return false; });
  }

 private:
  // Returns how long to wait for the next look.
  milliseconds Look() {
    // A device that has let go of this file may have another's by now.
    struct stat info;
    if (stat(file_.c_str(), &info) != 0) return kSeldom;
    if (loop_.empty() || !IsDeviceOf("/dev/" + loop_, info)) loop_ = LoopOf(file_);
    if (loop_.empty()) return kSeldom;
    const auto now = MeasureNow(file_);
    const Status status = now ? Hold(loop_, now->held) : now.error();
    if (!status.ok()) return kOften;  // unmounted meanwhile, or not mounted yet
    Tell(now->allowance <= 0);
    return now->allowance < kFew ? kOften : kSeldom;
  }

  void Tell(bool full) {
    if (full && !full_)
      spdlog::warn("the host's disk is nearly full: the VM can write no more; make room at {}",
                   file_);
    full_ = full;
  }

  const std::string file_;
  std::string loop_;
  bool full_ = false;
};

}  // namespace

namespace internal {

int64_t Allowance(const Space& host, int64_t taken) {
  const int64_t whole = std::clamp(host.size / 20, 2 * kGiB, 8 * kGiB);
  const int64_t kept = taken < kGiB ? whole / 2 : whole;
  return host.free - kept;
}

Status LoopStatus(int error, const std::string& what) {
  const bool none = error == ENOENT || error == ENODEV || error == ENXIO || error == EPERM ||
                    error == EACCES || error == ENOTTY || error == EINVAL;
  return Status(none ? Code::kUnimplemented : Code::kUnavailable,
                fmt::format("{}: {}", what, std::strerror(error)));
}

}  // namespace internal

Status MakeDisk(const std::string& file, int64_t bytes) {
  if (access(file.c_str(), F_OK) == 0) return {};
  TORUS_ASSIGN_OR_RETURN(const auto host, SpaceAt(fs::path(file).parent_path()));
  if (internal::Allowance(host, 0) < kToBegin)
    return ResourceExhausted("the disk with {} has {} MB left, too few for a VM; make room", file,
                             host.free / kMiB);
  const std::string making = file + ".making";
  unlink(making.c_str());
  const Fd fd(open(making.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd || ftruncate(fd.get(), bytes) != 0) return ErrnoStatus(errno, "make", making);
  // Nothing of it is written that reads as zeros anyway; and no blocks are root's alone.
  const auto made = RunChecked({"mkfs.ext4", "-q", "-F", "-m", "0", "-i", "32768", "-J", "size=64",
                                "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", making});
  if (!made && made.error().code() == Code::kNotFound)
    return Unimplemented("mkfs.ext4 is not installed (apt-get install e2fsprogs)");
  if (!made) return made.error();
  FaultPoint("worker.disk_made");
  if (rename(making.c_str(), file.c_str()) != 0) return ErrnoStatus(errno, "rename", making);
  return {};
}

Status MountDisk(const std::string& file, const std::string& target) {
  TORUS_RETURN_IF_ERROR(AwaitUnmounted(file, std::chrono::seconds(30)));
  TORUS_ASSIGN_OR_RETURN(const auto loop, Attach(file));
  FaultPoint("worker.disk_attached");
  if (mount(loop.first.c_str(), target.c_str(), "ext4", MS_NOSUID | MS_NODEV,
            "noinit_itable,discard,errors=remount-ro") != 0)
    return ErrnoStatus(errno, "mount " + file + " at", target);
  FaultPoint("worker.disk_mounted");
  const auto now = MeasureNow(file);
  return now ? Hold(fs::path(loop.first).filename(), now->held) : now.error();
}

Status AwaitUnmounted(const std::string& file, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  std::string loop, last;
  while (!(loop = LoopOf(file)).empty()) {
    if (Clock::now() >= deadline) return DeadlineExceeded("{} is in use still, by {}", file, loop);
    last = loop;
    std::this_thread::sleep_for(milliseconds(2));
  }
  // A VM that has the device by now limits it again within a moment.
  if (!last.empty()) LetGo(last);
  return {};
}

DiskKeeper::DiskKeeper(std::string file)
    : thread_([watch = std::make_shared<Watch>(std::move(file))](const std::stop_token& stop) {
        watch->Run(stop);
      }) {}

}  // namespace torus::worker
