#include "service/placement/slots.h"

#include <gtest/gtest.h>

#include <set>

namespace torus::placement {
namespace {

TEST(Slots, EachHasAnAddressAndUidsOfItsOwn) {
  std::set<std::string> addresses;
  uint64_t next_free_uid = 0;
  for (int slot = 1; slot <= kMaxSlot; ++slot) {
    EXPECT_TRUE(addresses.insert(AddressOf(slot)).second);
    EXPECT_GE(UidBaseOf(slot), next_free_uid);
    next_free_uid = uint64_t{UidBaseOf(slot)} + 65'536;
  }
  EXPECT_LT(next_free_uid, uint64_t{1} << 32);
  EXPECT_EQ(AddressOf(1), "10.128.0.2");
  EXPECT_EQ(AddressOf(255), "10.128.1.0");
  EXPECT_EQ(AddressOf(kMaxSlot), "10.128.127.254");
  EXPECT_GE(UidBaseOf(1), 1'000'000u);
}

}  // namespace
}  // namespace torus::placement
