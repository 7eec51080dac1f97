// Makes, names and reads the counters' pages.
#include "slice/counters.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>

#include "base/text.h"

namespace torus::slice {
namespace {

static_assert(std::atomic<int64_t>::is_always_lock_free && sizeof(std::atomic<int64_t>) == 8);
// The Python module libtpu.sdk.counters reads these places, too.
static_assert(sizeof(PageHeader) == 256 && offsetof(PageHeader, compiles) == 216);
static_assert(sizeof(DeviceCounters) == 384 && offsetof(DeviceCounters, timing) == 88);

// A small file's text; empty where it cannot be read.
std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::optional<uint64_t> StartTicksOf(int64_t pid) {
  return StartTicks(ReadText(fmt::format("/proc/{}/stat", pid)));
}

template <typename Number>
bool Read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// What dead processes left, as far as it is ours to remove.
void RemoveDeadPages(const std::string& folder) {
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    const auto name = ParsePageName(entry->d_name);
    if (name && StartTicksOf(name->pid) != name->start_ticks)
      unlinkat(dirfd(entries), entry->d_name, 0);
  }
  closedir(entries);
}

void Copy(std::span<char> field, std::string_view text) {
  const size_t size = std::min(text.size(), field.size() - 1);
  std::memcpy(field.data(), text.data(), size);
}

// A new file of `size` zeros, mapped; null where there is none to be had.
void* MapFile(const std::string& path, size_t size) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  // The space is taken now: a full disk is an error here, not a signal later.
  if (posix_fallocate(file, 0, static_cast<off_t>(size)) == 0)
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) return memory;
  unlink(path.c_str());
  return nullptr;
}

// Makes the folder this user's alone; false where it is another's or open to others.
bool MakePrivateFolder(const std::string& path) {
  mkdir(path.c_str(), 0700);
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 022) == 0;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no one sets it here
  return value == nullptr ? "" : value;
}

// A field of a struct in a page's copy. The bytes have no alignment.
template <typename Value>
Value Field(const char* at, size_t offset) {
  Value value;
  std::memcpy(&value, at + offset, sizeof(value));
  return value;
}

std::string Text(const char* at, size_t size) {
  std::string text(at, strnlen(at, size));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  return text;
}

#define TORUS_COUNTER(name) Field<int64_t>(at, offsetof(DeviceCounters, name))

DeviceReading ReadDevice(const char* at, int64_t now) {
  DeviceReading device{.chip = Field<int32_t>(at, offsetof(DeviceCounters, chip)),
                       .core = Field<int32_t>(at, offsetof(DeviceCounters, core)),
                       .hbm_total = TORUS_COUNTER(hbm_total),
                       .hbm_in_use = TORUS_COUNTER(hbm_in_use),
                       .hbm_peak = TORUS_COUNTER(hbm_peak),
                       .running = TORUS_COUNTER(running),
                       .runs = TORUS_COUNTER(runs),
                       .traffic = TORUS_COUNTER(traffic),
                       .run_time = TORUS_COUNTER(run_time),
                       .busy = TORUS_COUNTER(busy)};
  const auto since = [now](int64_t then) {
    return then > 0 && then < now ? now - then : int64_t{0};
  };
  if (device.running > 0) {
    device.busy +=
        std::min(since(TORUS_COUNTER(busy_since)), INT64_MAX - std::max<int64_t>(device.busy, 0));
  } else {
    device.idle = since(TORUS_COUNTER(last_run));
  }
  for (int b = 0; b < kTimingBuckets; ++b)
    device.timing[b] = Field<int64_t>(at, offsetof(DeviceCounters, timing) + b * sizeof(int64_t));
  return device;
}
#undef TORUS_COUNTER

}  // namespace

int64_t CountersNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

std::unique_ptr<CountersPage> CountersPage::Make(const std::string& folder,
                                                 const PageIdentity& identity) {
  static std::atomic<int> made = 0;
  const int64_t pid = getpid();
  const auto start = StartTicksOf(pid);
  const size_t size = sizeof(PageHeader) + identity.devices.size() * sizeof(DeviceCounters);
  std::string path = fmt::format("{}/{}-{}-{}", folder, pid, start.value_or(0), ++made);
  void* memory = nullptr;
  if (!folder.empty() && start && size <= kMaxPageBytes) {
    RemoveDeadPages(folder);
    memory = MapFile(path, size);
  }
  if (memory == nullptr) {
    path.clear();
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();  // as where `new` finds none
  }

  auto* const header = new (memory) PageHeader{};
  header->version = kCountersVersion;
  header->header_bytes = sizeof(PageHeader);
  header->device_bytes = sizeof(DeviceCounters);
  header->device_count = static_cast<uint32_t>(identity.devices.size());
  header->pid = pid;
  header->start_ticks = start.value_or(0);
  header->devices_per_chip = static_cast<uint32_t>(identity.devices_per_chip);
  header->duty_cycles_per_chip = static_cast<uint32_t>(identity.duty_cycles_per_chip);
  header->hbm_bandwidth = identity.hbm_bandwidth;
  Copy(header->accelerator_type, identity.accelerator_type);
  Copy(header->command, CommandLine(ReadText("/proc/self/cmdline")));
  std::unique_ptr<CountersPage> page(new CountersPage(memory, size, std::move(path)));
  for (size_t d = 0; d < identity.devices.size(); ++d) {
    auto* const device = new (&page->device(d)) DeviceCounters;
    device->chip = identity.devices[d].chip;
    device->core = identity.devices[d].core;
    device->last_run = CountersNow();
  }
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(header->magic, kCountersMagic.data(), kCountersMagic.size());
  return page;
}

CountersPage::~CountersPage() {
  // A forked child has the page, too, and it is not the child's.
  if (!path_.empty() && header().pid == getpid()) unlink(path_.c_str());
  munmap(memory_, size_);
}

std::string WritableCountersFolder() {
  if (const auto named = Variable(kCountersVariable); !named.empty()) return named;
  if (access(kCountersFolder, W_OK) == 0) return kCountersFolder;
  const std::string runtime = Variable("XDG_RUNTIME_DIR");
  const std::string own = runtime.empty() ? fmt::format("/tmp/torus-counters-{}", geteuid())
                                          : runtime + "/torus-counters";
  return MakePrivateFolder(own) ? own : "";
}

std::optional<PageName> ParsePageName(std::string_view name) {
  const size_t first = name.find('-'), second = name.rfind('-');
  PageName page;
  int number = 0;
  if (first == std::string_view::npos || first == second) return std::nullopt;
  if (!Read(name.substr(0, first), page.pid) || page.pid <= 0) return std::nullopt;
  if (!Read(name.substr(first + 1, second - first - 1), page.start_ticks)) return std::nullopt;
  if (!Read(name.substr(second + 1), number)) return std::nullopt;
  return page;
}

std::optional<uint64_t> StartTicks(std::string_view stat) {
  // The name, field 2, stands in parentheses and may hold anything.
  const size_t after_name = stat.rfind(") ");
  if (after_name == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(after_name + 2);
  if (stat.starts_with('Z') || stat.starts_with('X')) return std::nullopt;
  for (int field = 3; field < 22; ++field) {
    const size_t space = stat.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    stat.remove_prefix(space + 1);
  }
  uint64_t ticks = 0;
  if (!Read(stat.substr(0, stat.find(' ')), ticks)) return std::nullopt;
  return ticks;
}

Result<PageReading> ParsePage(std::string_view bytes, int64_t now) {
  if (bytes.size() < sizeof(PageHeader) || !bytes.starts_with(kCountersMagic))
    return InvalidArgument("it is no page of counters, or not whole yet");
  const char* const at = bytes.data();
  const auto number = [at](size_t offset) { return Field<uint32_t>(at, offset); };
  const uint32_t version = number(offsetof(PageHeader, version));
  if (version != kCountersVersion)
    return InvalidArgument("it is a page of version {}, not {}", version, kCountersVersion);
  const uint64_t header = number(offsetof(PageHeader, header_bytes));
  const uint64_t device = number(offsetof(PageHeader, device_bytes));
  const uint64_t count = number(offsetof(PageHeader, device_count));
  if (header < sizeof(PageHeader) || device < sizeof(DeviceCounters) || header > kMaxPageBytes ||
      count > kMaxPageBytes || header + count * device > bytes.size())
    return InvalidArgument("its sizes do not fit its {} bytes", bytes.size());

  PageReading page;
  page.accelerator_type =
      Text(at + offsetof(PageHeader, accelerator_type), sizeof(PageHeader::accelerator_type));
  page.command = Text(at + offsetof(PageHeader, command), sizeof(PageHeader::command));
  page.devices_per_chip =
      std::clamp<int>(static_cast<int>(number(offsetof(PageHeader, devices_per_chip))), 1, 16);
  page.duty_cycles_per_chip =
      std::clamp<int>(static_cast<int>(number(offsetof(PageHeader, duty_cycles_per_chip))), 1, 16);
  page.hbm_bandwidth = Field<double>(at, offsetof(PageHeader, hbm_bandwidth));
  page.compiles = Field<int64_t>(at, offsetof(PageHeader, compiles));
  for (uint64_t d = 0; d < count; ++d)
    page.devices.push_back(ReadDevice(at + header + d * device, now));
  return page;
}

}  // namespace torus::slice
