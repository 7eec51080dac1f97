// Slots: what a worker is given of the machine it runs on: an address in the VPC network and a
// range of host uids for its user namespace. A slot is a number; the rest follows from it. Pure.
// Thread-safety: free functions.
#ifndef TORUS_SERVICE_PLACEMENT_SLOTS_H_
#define TORUS_SERVICE_PLACEMENT_SLOTS_H_

#include <cstdint>
#include <string>

namespace torus::placement {

// Slots are 1 … kMaxSlot: the lower half of 10.128.0.0/16, the first range of upstream's default
// network, less its first two addresses (network and router).
inline constexpr int kMaxSlot = (1 << 15) - 3;

// "10.128.0.2" for slot 1. Requires: 1 <= slot <= kMaxSlot.
std::string AddressOf(int slot);

// The first of 65,536 host uids; ranges of two slots never meet, and none meets the host's own
// accounts (below 1,000,000, where most hosts' subordinate uids start too).
uint32_t UidBaseOf(int slot);

}  // namespace torus::placement

#endif  // TORUS_SERVICE_PLACEMENT_SLOTS_H_
