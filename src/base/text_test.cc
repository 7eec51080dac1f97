#include "base/text.h"

#include <gtest/gtest.h>

namespace torus {
namespace {

TEST(Text, Trims) {
  EXPECT_EQ(Trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trim("a"), "a");
  EXPECT_EQ(Trim(" \n"), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(Text, HashesAsFnv1aDoes) {
  EXPECT_EQ(Fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(Fnv1a("foobar"), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace torus
