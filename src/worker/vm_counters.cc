#include "worker/vm_counters.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>

#include "base/fd.h"

namespace torus::worker {
namespace {

constexpr size_t kMaxPage = 64 * 1024;  // a host has 16 devices at most
constexpr int kMaxEntries = 1024;
constexpr size_t kMaxPages = 64;

// Opens what lies at `path` below `folder` without following any link.
Fd OpenBelow(int folder, const std::string& path, uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return Fd(static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how))));
}

// The bytes of a plain file, all or, of one that is larger, none.
std::string ReadBelow(int folder, const std::string& path) {
  const Fd file = OpenBelow(folder, path, O_RDONLY);
  struct stat info;
  if (!file || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::string bytes(kMaxPage + 1, '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t n =
        pread(file.get(), bytes.data() + size, bytes.size() - size, static_cast<off_t>(size));
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  if (size > kMaxPage) return {};
  bytes.resize(size);
  return bytes;
}

bool Lives(int root, const slice::PageName& page) {
  const std::string stat = ReadBelow(root, fmt::format("proc/{}/stat", page.pid));
  return slice::StartTicks(stat) == page.start_ticks;
}

}  // namespace

std::vector<slice::PageReading> ReadVmCounters(const std::string& root_path, int64_t now) {
  std::vector<slice::PageReading> pages;
  const Fd root(open(root_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return pages;
  Fd folder = OpenBelow(root.get(), slice::kCountersFolder, O_RDONLY | O_DIRECTORY);
  if (!folder) return pages;
  const int folder_fd = folder.get();
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(folder.Release()), closedir);
  if (!entries) return pages;
  for (int i = 0; i < kMaxEntries && pages.size() < kMaxPages; ++i) {
    const dirent* const entry = readdir(entries.get());
    if (entry == nullptr) break;
    const auto name = slice::ParsePageName(entry->d_name);
    if (!name || !Lives(root.get(), *name)) continue;
    if (auto page = slice::ParsePage(ReadBelow(folder_fd, entry->d_name), now))
      pages.push_back(*std::move(page));
  }
  return pages;
}

}  // namespace torus::worker
