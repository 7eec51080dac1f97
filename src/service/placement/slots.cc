#include "service/placement/slots.h"

#include <fmt/format.h>

namespace torus::placement {
namespace {

constexpr uint32_t kUidsASlot = 65'536;
constexpr uint32_t kFirstUid = 1'000'000;

}  // namespace

std::string AddressOf(int slot) {
  const int host = slot + 1;  // .0.0 is the network, .0.1 the router
  return fmt::format("10.128.{}.{}", host >> 8, host & 0xff);
}

uint32_t UidBaseOf(int slot) { return kFirstUid + kUidsASlot * static_cast<uint32_t>(slot - 1); }

}  // namespace torus::placement
