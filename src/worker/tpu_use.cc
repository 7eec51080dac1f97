#include "worker/tpu_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace torus::worker {
namespace {

constexpr int64_t kSecond = 1'000'000'000;  // nanoseconds
constexpr int64_t kWindow = 60 * kSecond;
constexpr int64_t kShortest = 50 * kSecond;  // of a window that says something
constexpr int64_t kSettled = 120;            // seconds of a process's age
constexpr int64_t kRunsOfALoop = 10;         // in a window: fewer is no training

// What the VM wrote is any number.
void Add(int64_t& sum, int64_t value) {
  if (value < 0 || __builtin_add_overflow(sum, value, &sum)) sum = 0;
}

std::string_view NameOf(Reach reach) {
  return reach == Reach::kLibtpu ? "with-libtpu" : reach == Reach::kGrpc ? "by-grpc" : "without-tpu";
}

}  // namespace

TpuUse UseOf(std::span<const slice::PageReading> pages, int64_t pid, int64_t at) {
  TpuUse use{.at = at, .idle = std::numeric_limits<int64_t>::max()};
  for (const auto& page : pages) {
    if (page.pid != pid) continue;
    Add(use.compiles, page.compiles);
    for (const auto& device : page.devices) {
      ++use.devices;
      Add(use.runs, device.runs);
      Add(use.busy, device.busy);
      Add(use.running, device.running);
      use.idle = std::min(use.idle, device.idle);
    }
  }
  return use;
}

void AddLook(const TpuUse& use, UseHistory& history) {
  while (!history.empty() && history.front().at < use.at - kWindow) history.pop_front();
  history.push_back(use);
}

std::vector<std::string> FactsOf(const VmProcess& process, const UseHistory& history) {
  std::vector<std::string> facts{fmt::format("running {} {} {} {} {}", process.pid, process.seconds,
                                             process.framework, NameOf(process.reach),
                                             process.command)};
  if (history.empty() || history.back().devices == 0) return facts;
  const TpuUse& then = history.front();
  const TpuUse& now = history.back();
  if (now.running == 0 && now.runs == then.runs && now.compiles == then.compiles)
    facts.push_back(fmt::format("holds {} {} {}", process.pid, now.idle / kSecond, process.command));
  const int64_t elapsed = now.at - then.at;
  if (process.seconds < kSettled || elapsed < kShortest || then.devices != now.devices)
    return facts;
  if (now.compiles > then.compiles)
    facts.push_back(fmt::format("compiling {} {} {} {}", process.pid, now.compiles - then.compiles,
                                elapsed / kSecond, process.command));
  if (now.runs - then.runs >= kRunsOfALoop) {
    const double share = static_cast<double>(now.busy - then.busy) /
                         static_cast<double>(elapsed) / static_cast<double>(now.devices);
    facts.push_back(fmt::format("duty {} {:.0f} {} {}", process.pid,
                                std::clamp(share, 0.0, 1.0) * 100, elapsed / kSecond,
                                process.command));
  }
  return facts;
}

}  // namespace torus::worker
