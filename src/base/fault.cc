#include "base/fault.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>

#include "base/fd.h"
#include "base/mutex.h"

namespace torus {
namespace internal {

std::vector<Fault> ParseFaults(std::string_view text) {
  constexpr std::string_view kStop = "=stop";
  std::vector<Fault> faults;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    const bool stop = item.ends_with(kStop);
    if (stop) item.remove_suffix(kStop.size());
    const size_t colon = item.rfind(':');
    Fault fault{std::string(item.substr(0, colon)), 1, stop};
    if (colon != std::string_view::npos) {
      const std::string_view count = item.substr(colon + 1);
      const auto [end, error] =
          std::from_chars(count.data(), count.data() + count.size(), fault.hit);
      if (error != std::errc() || end != count.data() + count.size() || fault.hit < 1) continue;
    }
    if (!fault.point.empty()) faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace internal

namespace {

// What the environment asks for; `hit` of a fault counts down.
struct Plan {
  Plan() {
    if (const char* text = std::getenv("TORUS_FAULT")) faults = internal::ParseFaults(text);
    if (const char* file = std::getenv("TORUS_FAULT_LOG")) log = file;
    any = !faults.empty() || !log.empty();
  }

  // Whether this process is the one to be struck.
  bool Claim() const {
    return log.empty() || Append(log + ".struck", O_EXCL, fmt::format("{}\n", getpid()));
  }

  void Note(std::string_view point) const {
    if (!log.empty()) Append(log, O_APPEND, fmt::format("{} {}\n", getpid(), point));
  }

  static bool Append(const std::string& path, int how, const std::string& line) {
    const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0600));
    return file && write(file.get(), line.data(), line.size()) > 0;
  }

  bool any = false;
  std::string log;
  Mutex mutex;
  std::vector<internal::Fault> faults TORUS_GUARDED_BY(mutex);
};

}  // namespace

void FaultPoint(std::string_view point) {
  static Plan plan;
  if (!plan.any) return;
  const MutexLock lock(plan.mutex);
  plan.Note(point);
  for (internal::Fault& fault : plan.faults) {
    if (fault.point != point || --fault.hit != 0 || !plan.Claim()) continue;
    std::raise(fault.stop ? SIGSTOP : SIGKILL);
  }
}

}  // namespace torus
