#include "base/file.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <vector>

#include "base/fault.h"
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

// A path of /proc/self/mountinfo: "\040" is a space.
std::string Unescape(std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      path +=
          static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
      i += 3;
    } else {
      path += text[i];
    }
  }
  return path;
}

// Where something is mounted at or below `path`, the oldest first.
Result<std::vector<std::string>> MountsBelow(const std::string& path) {
  TORUS_ASSIGN_OR_RETURN(const std::string table, ReadFile("/proc/self/mountinfo"));
  std::vector<std::string> found;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, where;
    fields >> id >> parent >> device >> root >> where;
    where = Unescape(where);
    if (where == path || where.starts_with(path + "/")) found.push_back(std::move(where));
  }
  return found;
}

Status UnmountBelow(const std::string& tree) {
  // The kernel's names have no links in them; the last part is the tree's own, link or not.
  const std::filesystem::path given(tree);
  std::error_code error;
  const auto folder = std::filesystem::canonical(
      given.has_parent_path() ? given.parent_path() : std::filesystem::path("."), error);
  if (error) return ErrnoStatus(error.value(), "look at", tree);
  TORUS_ASSIGN_OR_RETURN(const auto mounts, MountsBelow(folder / given.filename()));
  // An unmount in a copy of the host's /sys must not reach the host's own.
  for (const std::string& where : mounts)
    mount(nullptr, where.c_str(), nullptr, MS_PRIVATE, nullptr);
  for (auto where = mounts.rbegin(); where != mounts.rend(); ++where)
    if (umount2(where->c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0)
      return ErrnoStatus(errno, "unmount", *where);
  return {};
}

}  // namespace

Status ErrnoStatus(int number, std::string_view what, const std::string& path) {
  Code code = Code::kInternal;
  // A file of /proc says ESRCH when its process has gone.
  if (number == ENOENT || number == ESRCH) code = Code::kNotFound;
  if (number == EACCES || number == EPERM || number == EROFS) code = Code::kPermissionDenied;
  if (number == ENOSPC || number == EDQUOT) code = Code::kResourceExhausted;
  // Out of descriptors: it passes.
  if (number == EMFILE || number == ENFILE) code = Code::kUnavailable;
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
  FaultPoint("file.written");
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    return ErrnoStatus(error, "write", path);
  }
  FaultPoint("file.renamed");
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
  return MakeFolders(path, mode);
}

Status RemoveTree(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 && errno == ENOENT) return {};
  TORUS_RETURN_IF_ERROR(UnmountBelow(path));
  // rm walks a tree of any depth with a bounded number of descriptors; std::filesystem does not.
  auto removed = RunChecked({"rm", "-rf", "--one-file-system", "--", path},
                            {.timeout = std::chrono::minutes(10)});
  return removed ? Status() : removed.error();
}

}  // namespace torus
