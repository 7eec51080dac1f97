#include "service/store/data_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace torus::store {
namespace {

std::string Trimmed(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Whether a folder has things in it and none of ours. (A fresh disk has a lost+found.)
bool IsForeign(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder / "lock", error)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename() != "lost+found") return true;
  return false;
}

// Closes a folder that was there to others. What another user owns, or all share, is no place for
// records, disks and sockets that root trusts.
Status MakePrivate(const std::filesystem::path& folder) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return {};  // said below, by what cannot be opened in it
  if (info.st_uid != geteuid())
    return FailedPrecondition(
        "The data folder {} belongs to another user (uid {}). Give it to the user who runs torus "
        "(chown {} {}), or name another with --data-dir.",
        folder.string(), info.st_uid, geteuid(), folder.string());
  if ((info.st_mode & S_ISVTX) != 0)
    return FailedPrecondition(
        "The folder {} is shared by all users. Name one of your own with --data-dir, such as "
        "{}/torus.",
        folder.string(), folder.string());
  if ((info.st_mode & 077) != 0 && chmod(folder.c_str(), 0700) != 0)
    return FailedPrecondition("Cannot close the data folder {} to others: {}.", folder.string(),
                              strerror(errno));
  return {};
}

}  // namespace

Result<std::unique_ptr<DataFolder>> DataFolder::Open(const std::filesystem::path& path) {
  std::error_code error;
  const auto folder = std::filesystem::absolute(path, error).lexically_normal();
  const bool made = std::filesystem::create_directories(folder, error);
  if (made) chmod(folder.c_str(), 0700);
  if (!error && !made && IsForeign(folder))
    return FailedPrecondition(
        "The folder {} holds other files and is no data folder of torus. Name an empty or a new "
        "one with --data-dir.",
        folder.string());
  if (error)
    return FailedPrecondition("Cannot make the data folder {}: {}. Name another with --data-dir.",
                              folder.string(), error.message());
  TORUS_RETURN_IF_ERROR(MakePrivate(folder));
  const std::string file = folder / "lock";
  const int lock = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0)
    return FailedPrecondition(
        "The data folder {} is not writable: {}. Give it to the user who runs torus, or name "
        "another with --data-dir.",
        folder.string(), strerror(errno));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    (void)!read(lock, holder, sizeof holder - 1);
    close(lock);
    return FailedPrecondition(
        "The data folder {} is in use by a torus with pid {}. Stop that one, or name another "
        "folder with --data-dir.",
        folder.string(), Trimmed(holder));
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(lock, 0) != 0 || pwrite(lock, pid.data(), pid.size(), 0) < 0) {
    const int reason = errno;
    close(lock);
    return FailedPrecondition("Cannot write to the data folder {}: {}.", folder.string(),
                              strerror(reason));
  }
  return std::unique_ptr<DataFolder>(new DataFolder(folder, lock));
}

DataFolder::~DataFolder() { close(lock_); }

}  // namespace torus::store
