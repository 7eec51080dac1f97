#include "base/fault.h"

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <mutex>

namespace torus {
namespace internal {

std::vector<Fault> ParseFaults(std::string_view text) {
  std::vector<Fault> faults;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    const size_t colon = item.rfind(':');
    Fault fault{std::string(item.substr(0, colon))};
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

// The faults still to come; `hit` counts down.
struct Pending {
  Pending() {
    if (const char* text = std::getenv("TORUS_FAULT")) faults = internal::ParseFaults(text);
    any = !faults.empty();
  }
  bool any = false;
  std::mutex mutex;
  std::vector<internal::Fault> faults;  // guarded by mutex
};

}  // namespace

void FaultPoint(std::string_view point) {
  static Pending pending;
  if (!pending.any) return;
  const std::lock_guard lock(pending.mutex);
  for (internal::Fault& fault : pending.faults) {
    if (fault.point == point && --fault.hit == 0) std::raise(SIGKILL);
  }
}

}  // namespace torus
