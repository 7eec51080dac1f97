#include "doctor/log_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace torus::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The lines of a log that comes in pieces of `size` bytes.
std::vector<std::string> Lines(std::string_view log, size_t size = 1 << 20) {
  std::vector<std::string> lines;
  LogText text([&](std::string_view line) { lines.emplace_back(line); });
  for (; !log.empty(); log.remove_prefix(std::min(size, log.size()))) text.Add(log.substr(0, size));
  text.End();
  return lines;
}

std::string Utf16(std::string_view text, bool big) {
  std::string encoded = big ? "\xfe\xff" : "\xff\xfe";
  for (const char c : text) encoded += big ? std::string{'\0', c} : std::string{c, '\0'};
  return encoded;
}

TEST(LogText, ReadsLines) {
  EXPECT_THAT(Lines("a\nb\n\nc"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(Lines(""), IsEmpty());
  EXPECT_THAT(Lines("a"), ElementsAre("a"));
}

TEST(LogText, TakesEachStateOfAProgressBarForALine) {
  EXPECT_THAT(Lines("1/2\r2/2\n"), ElementsAre("1/2", "2/2"));
}

TEST(LogText, LeavesTerminalEscapesOut) {
  const std::string log =
      "\x1b[1;31mred\x1b[0m \x1b]8;;http://a\x1b\\link\x1b]0;title\a\x1b(Bend\n";
  for (size_t size = 1; size < 8; ++size)
    EXPECT_THAT(Lines(log, size), ElementsAre("red linkBend"));
  EXPECT_THAT(Lines("a\x1b[12\nb\n"), ElementsAre("a", "b"));
}

TEST(LogText, ReadsUtf16OfBothOrders) {
  for (const bool big : {false, true}) {
    for (const size_t size : {1u, 3u, 4096u}) {
      EXPECT_THAT(Lines(Utf16("one\ntwo\n", big), size), ElementsAre("one", "two"));
    }
  }
  EXPECT_THAT(Lines(std::string("\xff\xfe\x00\xdc", 4) + Utf16("x", false).substr(2)),
              ElementsAre("?x"));
}

TEST(LogText, KeepsTheBeginningOfALongLine) {
  const auto lines = Lines(std::string(3 * kMaxLine, 'x') + "\nshort\n", 1000);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], std::string(kMaxLine, 'x'));
  EXPECT_EQ(lines[1], "short");
}

}  // namespace
}  // namespace torus::doctor
