// fcntl's locks: they belong to a process, and the kernel tells whose they are.
#include "tpu/device/chips_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <system_error>

#include "base/mutex.h"
#include "base/text.h"

namespace torus::tpu {
namespace {

// The file's descriptor, open until the process ends: closing any would drop all of its locks.
// -1 and errno where it cannot be opened.
int OpenOnce(const std::string& path) {
  static Mutex& mutex = *new Mutex;
  static auto& open_files = *new std::map<std::string, int>;
  const MutexLock lock(mutex);
  if (const auto found = open_files.find(path); found != open_files.end()) return found->second;
  // Without O_CREAT first: Linux refuses that for another user's file in a sticky folder.
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0) fchmod(file, 0666);  // whatever the umask: the next user's, too
  }
  if (file >= 0) open_files.emplace(path, file);
  return file;
}

struct flock ByteOf(int core) {
  struct flock byte {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = core;
  byte.l_len = 1;
  return byte;
}

// "python3 train.py"; empty where it is not to be seen.
std::string CommandOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  std::string command((std::istreambuf_iterator<char>(file)), {});
  command = CommandLine(command);
  constexpr size_t kEnough = 200;
  if (command.size() > kEnough) command = command.substr(0, kEnough) + "...";
  return command;
}

Status CannotLock(const std::string& path) {
  return FailedPrecondition(
      "Cannot lock the TPU's chips in {}: {}. ALLOW_MULTIPLE_LIBTPU_LOAD=1 "
      "does without.",
      path, std::generic_category().message(errno));
}

Status InUse(const std::string& path, pid_t holder) {
  // 0: the holder is in another container.
  if (holder <= 0) {
    return Status(Code::kAborted,
                  fmt::format("The TPU is already in use by another process probably owned by "
                              "another user. Run \"$ sudo lsof -w {}\" to figure out which process "
                              "is using the TPU.",
                              path));
  }
  const auto command = CommandOf(holder);
  return Status(Code::kAborted,
                fmt::format("The TPU is already in use by process with pid {}{}. Not attempting to "
                            "load libtpu.so in this process. ALLOW_MULTIPLE_LIBTPU_LOAD=1 lets "
                            "several share it, TPU_VISIBLE_CHIPS gives each its own chips.",
                            holder, command.empty() ? "" : " (" + command + ")"));
}

}  // namespace

Status LockChips(const std::string& path, std::span<const int> cores) {
  const int file = OpenOnce(path);
  if (file < 0) return CannotLock(path);
  for (const int core : cores) {
    auto byte = ByteOf(core);
    // The holder may go between the two calls: then the lock is free.
    while (fcntl(file, F_SETLK, &byte) != 0) {
      if (errno != EACCES && errno != EAGAIN) return CannotLock(path);
      auto holder = ByteOf(core);
      if (fcntl(file, F_GETLK, &holder) != 0) return CannotLock(path);
      if (holder.l_type != F_UNLCK) return InUse(path, holder.l_pid);
    }
  }
  return Status();
}

void HoldDeviceFiles(std::span<const std::string> paths) {
  static Mutex& mutex = *new Mutex;
  static auto& held = *new std::set<std::string>;
  const MutexLock lock(mutex);
  for (const auto& path : paths) {
    if (held.contains(path)) continue;
    // O_PATH asks nothing of a device.
    const int file = open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    struct stat info;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode))
      held.insert(path);
    else
      close(file);
  }
}

}  // namespace torus::tpu
