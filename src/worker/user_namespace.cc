#include "worker/user_namespace.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/fault.h"
#include "base/file.h"
#include "worker/oci_config.h"

namespace torus::worker {
namespace {

// The child: becomes that user, keeping its capabilities (some hosts let no others make a user
// namespace), makes the namespace, says so with 1, or with 2 that it could not, and waits to be
// killed. Only system calls: it is a copy of one thread of many.
[[noreturn]] void MakeAndWait(pid_t maker, uint32_t uid, int ready) {
  const bool made = prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) == 0 &&
                    syscall(SYS_setresgid, uid, uid, uid) == 0 &&
                    syscall(SYS_setresuid, uid, uid, uid) == 0 && unshare(CLONE_NEWUSER) == 0;
  // It ends with its maker. Not before here: the kernel forgets that when a process changes its
  // user.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != maker) _exit(1);
  const uint64_t answer = made ? 1 : 2;
  (void)!write(ready, &answer, sizeof(answer));
  for (;;) pause();
}

Status WriteMap(const std::string& path, const std::string& map) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "open", path);
  if (write(fd.get(), map.data(), map.size()) == static_cast<ssize_t>(map.size())) return {};
  return ErrnoStatus(errno, "write", path);
}

// The namespace of the child, mapped.
Result<Fd> MapAndOpen(pid_t child, uint32_t uid_base, int ready) {
  constexpr int kPatienceMs = 10'000;
  pollfd answered{ready, POLLIN, 0};
  uint64_t answer = 0;
  if (poll(&answered, 1, kPatienceMs) != 1 || read(ready, &answer, sizeof(answer)) < 0 ||
      answer != 1)
    return Error(Internal("cannot make a user namespace as user {}", uid_base));
  const std::string map = fmt::format("0 {} {}", uid_base, kUidCount);
  for (const char* which : {"uid_map", "gid_map"})
    TORUS_RETURN_IF_ERROR(WriteMap(fmt::format("/proc/{}/{}", child, which), map));
  const std::string path = fmt::format("/proc/{}/ns/user", child);
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return Error(ErrnoStatus(errno, "open", path));
  return fd;
}

}  // namespace

Result<UserNamespace> UserNamespace::Make(uint32_t uid_base) {
  const Fd ready(eventfd(0, EFD_CLOEXEC));
  if (!ready) return Error(ErrnoStatus(errno, "make", "an eventfd"));
  const pid_t maker = getpid();
  const pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, 0, 0));
  if (child < 0) return Error(ErrnoStatus(errno, "make", "a process for a user namespace"));
  if (child == 0) MakeAndWait(maker, uid_base, ready.get());
  FaultPoint("worker.user_namespace");
  auto fd = MapAndOpen(child, uid_base, ready.get());
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!fd) return Error(fd.error());
  return UserNamespace(std::move(*fd));
}

std::string UserNamespace::path() const { return fmt::format("/proc/{}/fd/{}", getpid(), fd()); }

}  // namespace torus::worker
