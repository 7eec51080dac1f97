#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/subprocess.h"

namespace torus {
namespace {

// Writes all of `bytes`; an errno, 0 on success.
int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

// Fills a new file; an errno, 0 on success.
int Fill(int fd, std::string_view bytes, const WriteOptions& options) {
  if (const int error = WriteAll(fd, bytes)) return error;
  if (options.owner && fchown(fd, *options.owner, *options.owner) != 0) return errno;
  if (fchmod(fd, options.mode) != 0) return errno;
  if (options.sync && fsync(fd) != 0) return errno;
  return 0;
}

// Makes the rename itself last.
void SyncFolder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

Status ErrnoStatus(int number, std::string_view what, const std::string& path) {
  Code code = Code::kInternal;
  // A file of /proc says ESRCH when its process has gone.
  if (number == ENOENT || number == ESRCH) code = Code::kNotFound;
  if (number == EACCES || number == EPERM || number == EROFS) code = Code::kPermissionDenied;
  if (number == ENOSPC || number == EDQUOT || number == EMFILE || number == ENFILE)
    code = Code::kResourceExhausted;
  return Status(code, fmt::format("cannot {} {}: {}", what, path, std::strerror(number)));
}

Result<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error(ErrnoStatus(errno, "read", path));
  std::string bytes;
  char buffer[16384];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof(buffer))) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    bytes.append(buffer, static_cast<size_t>(n));
  }
  const int error = errno;
  close(fd);
  if (n < 0) return Error(ErrnoStatus(error, "read", path));
  return bytes;
}

Status WriteFile(const std::string& path, std::string_view bytes, const WriteOptions& options) {
  static std::atomic<unsigned> counter = 0;
  const std::string temporary = fmt::format("{}.tmp-{}-{}", path, getpid(), counter++);
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "write", path);
  int error = Fill(fd, bytes, options);
  close(fd);
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    return ErrnoStatus(error, "write", path);
  }
  if (options.sync) SyncFolder(path);
  return {};
}

Status MakeFolders(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) == 0) {
    return chmod(path.c_str(), mode) == 0 ? Status() : ErrnoStatus(errno, "set the mode of", path);
  }
  if (errno == EEXIST) {
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return {};
    return ErrnoStatus(ENOTDIR, "make the folder", path);
  }
  if (errno != ENOENT) return ErrnoStatus(errno, "make the folder", path);
  const std::string parent = std::filesystem::path(path).parent_path();
  if (parent.empty() || parent == path) return ErrnoStatus(ENOENT, "make the folder", path);
  TORUS_RETURN_IF_ERROR(MakeFolders(parent, mode));
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
    return ErrnoStatus(errno, "make the folder", path);
  return {};
}

Status RemoveTree(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 && errno == ENOENT) return {};
  // rm walks a tree of any depth with a bounded number of descriptors; std::filesystem does not.
  auto removed = RunChecked({"rm", "-rf", "--one-file-system", "--", path},
                            {.timeout = std::chrono::minutes(10)});
  return removed ? Status() : removed.error();
}

}  // namespace torus
