#include "worker/below.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace torus::worker {
namespace {

bool IsPlainFile(const Fd& file, struct stat& info) {
  return file && fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

Fd OpenBelow(int folder, const std::string& path, uint64_t flags, uint64_t mode) {
  open_how how{};
  // Not to wait at a FIFO, and not to be given a terminal.
  how.flags = flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY;
  how.mode = mode;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return Fd(static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how))));
}

std::string ReadBelow(int folder, const std::string& path, size_t most) {
  const Fd file = OpenBelow(folder, path, O_RDONLY);
  struct stat info;
  if (!IsPlainFile(file, info)) return {};
  std::string bytes(most + 1, '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t n =
        pread(file.get(), bytes.data() + size, bytes.size() - size, static_cast<off_t>(size));
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  if (size > most) return {};
  bytes.resize(size);
  return bytes;
}

void AppendBelow(int folder, const std::string& path, const std::string& text, uint32_t owner,
                 int64_t most) {
  const Fd file = OpenBelow(folder, path, O_WRONLY | O_APPEND | O_CREAT, 0644);
  struct stat info;
  if (!IsPlainFile(file, info)) return;
  if (info.st_uid != owner && fchown(file.get(), owner, owner) != 0) return;
  if (info.st_size > most && ftruncate(file.get(), 0) != 0) return;
  [[maybe_unused]] const ssize_t n = write(file.get(), text.data(), text.size());
}

}  // namespace torus::worker
