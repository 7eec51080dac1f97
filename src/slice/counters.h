// The counters' page: what a process's libtpu.so tells of its TPU while it runs, in a small file
// that it maps and others read. The worker serves metrics from it, as the Python module
// libtpu.sdk does; so libtpu.so needs no network library.
//
// A folder holds one page for each client of each process, named "<pid>-<start>-<n>": the pid as
// its own pid namespace has it, and when it started (field 22 of /proc/<pid>/stat). What a dead
// process left is so told apart from a live one's, and removed by whoever comes next.
//
// Layout, version 1: a PageHeader, then a DeviceCounters for each device, all little-endian and
// aligned to eight bytes. A reader takes the sizes of both from the header, so that fields may be
// added at their ends; another meaning of what is there is another version. Every counter is an
// atomic of its own: a reader may see one newer than another, never half of one.
//
// Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a host share. Sizes are bytes.
// Thread-safety: the counters, from any thread; a CountersPage's making and end, from one.
#ifndef TORUS_SLICE_COUNTERS_H_
#define TORUS_SLICE_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace torus::slice {

// The folder in a TPU VM, made at its boot. The variable names another.
inline constexpr char kCountersFolder[] = "/run/torus-counters";
inline constexpr char kCountersVariable[] = "TORUS_COUNTERS";

inline constexpr std::string_view kCountersMagic = "TORUSCTR";
inline constexpr uint32_t kCountersVersion = 1;
// Runs by how long they took: under 1 us, then [2^(b-1), 2^b) us; the last has all above.
inline constexpr int kTimingBuckets = 32;

struct alignas(64) PageHeader {
  char magic[8];  // written last
  uint32_t version;
  uint32_t header_bytes, device_bytes;  // of these structs
  uint32_t device_count;
  int64_t pid;
  uint64_t start_ticks;
  uint32_t devices_per_chip;
  uint32_t duty_cycles_per_chip;  // 2 where each core of a chip has its own
  double hbm_bandwidth;           // of a device, bytes per second
  char accelerator_type[32];      // "v2-8"; ends in a zero
  char command[128];              // its beginning; ends in a zero
  std::atomic<int64_t> compiles;  // programs compiled or loaded
};

struct alignas(64) DeviceCounters {
  int32_t chip = 0;  // its number in the slice
  int32_t core = 0;  // of the chip
  // What every run touches stands in one line of the cache.
  std::atomic<int64_t> hbm_total = 0, hbm_in_use = 0, hbm_peak = 0;
  std::atomic<int64_t> runs = 0;        // programs that ended; tiny ones count when they begin
  std::atomic<int64_t> last_run = 0;    // when one last began or ended, or the page was made
  std::atomic<int64_t> running = 0;     // programs given to the device and not yet ended
  std::atomic<int64_t> busy_since = 0;  // if any is: since when there is always one
  std::atomic<int64_t> busy = 0;        // nanoseconds before that in which one was running
  std::atomic<int64_t> traffic = 0;     // bytes of HBM that they read and wrote, as costs say
  std::atomic<int64_t> run_time = 0;    // nanoseconds that they took, one by one
  std::atomic<int64_t> timing[kTimingBuckets] = {};
};

// Now, on the clock of the page.
int64_t CountersNow();

// ---- Writing

struct PageIdentity {
  struct Place {
    int chip = 0, core = 0;
  };
  std::string accelerator_type;
  int devices_per_chip = 1, duty_cycles_per_chip = 1;
  double hbm_bandwidth = 0;
  std::vector<Place> devices;
};

class CountersPage {
 public:
  // A page of this process in `folder`, from which dead processes' pages are removed first. Where
  // no file can be made, for whatever reason, it is memory that nobody else sees.
  static std::unique_ptr<CountersPage> Make(const std::string& folder,
                                            const PageIdentity& identity);
  // Removes the file.
  ~CountersPage();
  CountersPage(const CountersPage&) = delete;

  PageHeader& header() { return *static_cast<PageHeader*>(memory_); }
  DeviceCounters& device(size_t index) { return devices()[index]; }
  const std::string& path() const { return path_; }  // empty: there is no file

 private:
  CountersPage(void* memory, size_t size, std::string path)
      : memory_(memory), size_(size), path_(std::move(path)) {}
  DeviceCounters* devices() { return reinterpret_cast<DeviceCounters*>(&header() + 1); }

  void* const memory_;
  const size_t size_;
  const std::string path_;
};

// Where this process's pages go: what the variable names; else the VM's folder, if it is there;
// else one that is this user's alone, made if need be. Empty: nowhere.
std::string WritableCountersFolder();

// ---- Reading. What others wrote is not trusted.

inline constexpr size_t kMaxPageBytes = size_t{1} << 20;

struct PageName {
  int64_t pid = 0;
  uint64_t start_ticks = 0;
};
std::optional<PageName> ParsePageName(std::string_view name);

// Field 22 of the text of /proc/<pid>/stat; none for a zombie, or a text that is none.
std::optional<uint64_t> StartTicks(std::string_view stat);

struct DeviceReading {
  int chip = 0, core = 0;
  int64_t hbm_total = 0, hbm_in_use = 0, hbm_peak = 0;
  int64_t running = 0, runs = 0, traffic = 0, run_time = 0;
  int64_t busy = 0;  // nanoseconds until the reading
  int64_t idle = 0;  // nanoseconds since the last run; 0 while one runs
  std::array<int64_t, kTimingBuckets> timing{};
};

struct PageReading {
  int64_t pid = 0;  // as the file's name says; for who has read it to set
  std::string accelerator_type, command;
  int devices_per_chip = 1, duty_cycles_per_chip = 1;
  double hbm_bandwidth = 0;
  int64_t compiles = 0;
  std::vector<DeviceReading> devices;
};

// Reads the bytes of a page, seen at `now`. INVALID_ARGUMENT: it is none, of another version, or
// not whole yet.
Result<PageReading> ParsePage(std::string_view bytes, int64_t now);

}  // namespace torus::slice

#endif  // TORUS_SLICE_COUNTERS_H_
