#include "base/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "base/fd.h"
#include "base/file.h"

namespace torus {

Result<std::optional<ProcessIdentity>> FindProcess(int64_t pid) {
  if (pid <= 0) return std::nullopt;
  const auto stat = ReadFile(fmt::format("/proc/{}/stat", pid));
  if (!stat && stat.error().code() != Code::kNotFound) return Error(stat.error());
  if (!stat) return std::nullopt;
  // The name, field 2, stands in parentheses and may hold anything.
  const size_t after_name = stat->rfind(')');
  if (after_name == std::string::npos) return std::nullopt;
  std::istringstream fields(stat->substr(after_name + 1));
  std::string field;
  ProcessIdentity identity{pid, 0};
  for (int number = 3; number < 22 && fields >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
  }
  if (!(fields >> identity.start_ticks)) return std::nullopt;
  return identity;
}

std::optional<ProcessIdentity> IdentifyProcess(int64_t pid) {
  const auto found = FindProcess(pid);
  return found ? *found : std::nullopt;
}

bool IsAlive(const ProcessIdentity& process) {
  const auto found = FindProcess(process.pid);
  return !found || *found == process;
}

Result<bool> TakeLock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return Error(ErrnoStatus(errno, "open", path));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  if (fcntl(fd, F_SETLK, &whole) != 0) {
    const int error = errno;
    close(fd);
    if (error == EAGAIN || error == EACCES) return false;
    return Error(ErrnoStatus(error, "lock", path));
  }
  // On a full disk the lock is as good without it.
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd, 0) == 0) (void)!pwrite(fd, pid.data(), pid.size(), 0);
  return true;  // the descriptor stays open
}

std::optional<ProcessIdentity> LockHolder(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  if (!file || fcntl(file.get(), F_GETLK, &whole) != 0 || whole.l_type == F_UNLCK)
    return std::nullopt;
  return IdentifyProcess(whole.l_pid);
}

}  // namespace torus
