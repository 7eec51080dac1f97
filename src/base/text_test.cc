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

TEST(Printable, LeavesNothingThatMovesACursor) {
  EXPECT_EQ(Printable("a\x1b[2J\b\t\x7f"), "a?[2J???");
  EXPECT_EQ(Printable("\xc2\x9b\xc2"), "?\xc2");
  EXPECT_EQ(Printable("Größe"), "Größe");
}

TEST(CommandLine, IsOneLine) {
  EXPECT_EQ(CommandLine(std::string("python3\0-c\0\nimport jax\n\tx\x1b[2J\0", 30)),
            "python3 -c  import jax  x?[2J");
  EXPECT_EQ(CommandLine(std::string(3, '\0')), "");
}

}  // namespace
}  // namespace torus
