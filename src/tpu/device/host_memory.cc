// Reads the kernel's accounts of memory.
#include "tpu/device/host_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "tpu/device/hbm.h"

namespace torus::tpu {
namespace {

// A small file's text, or nothing.
std::string ReadText(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text(16384, '\0');
  const ssize_t size = read(fd, text.data(), text.size());
  close(fd);
  text.resize(std::max<ssize_t>(size, 0));
  return text;
}

// The number that `text` begins with, blanks skipped. "max" and nothing are none.
std::optional<int64_t> Number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return std::numeric_limits<int64_t>::max();
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The number after `key` at the beginning of a line.
std::optional<int64_t> NumberOf(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    if (text.starts_with(key)) return Number(text.substr(key.size()));
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return std::nullopt;
}

}  // namespace

HostMemory::HostMemory(int64_t limit_bytes, Roots roots)
    : limit_bytes_(limit_bytes), roots_(std::move(roots)) {
  FindGroups();
}

// A line of /proc/self/cgroup is id:controllers:path; v2's has no controllers.
void HostMemory::FindGroups() {
  const std::string lines = ReadText(roots_.proc + "/self/cgroup");
  std::string_view text = lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const auto controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string path(line.substr(second + 1));
    if (controllers == ",,") AddGroups(roots_.cgroup, path, true);
    if (controllers.contains(",memory,")) AddGroups(roots_.cgroup + "/memory", path, false);
  }
}

// The group and all above it, for each may have a limit. A container may see its own group as the
// root, so a folder that is not there is passed over.
void HostMemory::AddGroups(const std::string& root, std::string path, bool v2) {
  for (;;) {
    if (path == "/") path.clear();
    if (access((root + path).c_str(), F_OK) == 0) groups_.push_back({root + path, v2});
    if (path.empty()) return;
    path.resize(std::min(path.rfind('/'), path.size() - 1));
  }
}

HostMemory::Bound HostMemory::Free() const {
  Bound least{std::numeric_limits<int64_t>::max(), "nothing"};
  const auto lower = [&least](int64_t bytes, std::string_view by) {
    if (bytes < least.bytes) least = {std::max<int64_t>(bytes, 0), std::string(by)};
  };
  if (const auto bytes = NumberOf(ReadText(roots_.proc + "/meminfo"), "MemAvailable:")) {
    lower(*bytes * 1024, "MemAvailable");
  }
  for (const auto& [folder, v2] : groups_) {
    const auto limit = Number(ReadText(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes")));
    const auto used =
        Number(ReadText(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes")));
    if (!limit || !used) continue;
    // Pages of files count as used, and the kernel drops them when memory is short.
    const auto files =
        NumberOf(ReadText(folder + "/memory.stat"), v2 ? "inactive_file " : "total_inactive_file ");
    lower(*limit - *used + files.value_or(0), "the memory limit of its cgroup");
  }
  if (limit_bytes_ > 0) lower(limit_bytes_ - OwnBytes(), "the TPU VM's memory limit");
  return least;
}

// What this process holds for itself: resident pages that are of no file.
int64_t HostMemory::OwnBytes() const {
  return NumberOf(ReadText(roots_.proc + "/self/status"), "RssAnon:").value_or(0) * 1024;
}

Status HostMemory::LookAndCheck(int64_t bytes, const char* what) {
  unlooked_.store(0, std::memory_order_relaxed);
  const Bound free = Free();
  const int64_t promised = promised_.load(std::memory_order_relaxed);
  const int64_t left = std::max<int64_t>(free.bytes - promised - kReserve, 0);
  if (bytes <= left) return Status();
  unlooked_.store(kLookEvery, std::memory_order_relaxed);  // the next request looks as well
  return ResourceExhausted(
      "Ran out of host memory: {} needs {}, which fits the chip, not this host: {} is left here, "
      "set by {}. A software TPU keeps its HBM in the host's memory. Free buffers, use a smaller "
      "batch or model, or use a machine or TPU VM with more memory.",
      what, FormatBytes(bytes), FormatBytes(left), free.by);
}

}  // namespace torus::tpu
