// Sizes and errors as upstream prints them.
#include "tpu/device/hbm.h"

namespace torus::tpu {

std::string FormatBytes(int64_t bytes) {
  constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;
  const auto in = [bytes](int64_t unit) {
    return static_cast<double>(bytes) / static_cast<double>(unit);
  };
  if (bytes >= kGiB) return fmt::format("{:.2f}G", in(kGiB));
  if (bytes >= kMiB) return fmt::format("{:.2f}M", in(kMiB));
  if (bytes >= kKiB) return fmt::format("{:.1f}K", in(kKiB));
  return fmt::format("{}B", bytes);
}

Status Hbm::CheckBuffer(int64_t bytes) const {
  if (Fits(bytes)) return Status();
  return ResourceExhausted(
      "Error allocating device buffer: Ran out of memory on HBM: Attempting to allocate {}. That "
      "was not possible. There are {} free.; ({})",
      FormatBytes(bytes), FormatBytes(free()), name());
}

}  // namespace torus::tpu
