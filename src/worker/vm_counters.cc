#include "worker/vm_counters.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>

#include "base/fd.h"
#include "worker/below.h"

namespace torus::worker {
namespace {

constexpr size_t kMaxPage = 64 * 1024;  // a host has 16 devices at most
constexpr int kMaxEntries = 1024;
constexpr size_t kMaxPages = 64;

bool Lives(int root, const slice::PageName& page) {
  const std::string stat = ReadBelow(root, fmt::format("proc/{}/stat", page.pid), kMaxPage);
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
    if (auto page = slice::ParsePage(ReadBelow(folder_fd, entry->d_name, kMaxPage), now)) {
      page->pid = name->pid;
      pages.push_back(*std::move(page));
    }
  }
  return pages;
}

}  // namespace torus::worker
