#include "base/json.h"

#include <gtest/gtest.h>

namespace torus {
namespace {

using Json = nlohmann::json;

TEST(DumpJson, WritesWhatNlohmannDoes) {
  const Json json = {{"a", {1, "ü"}}};
  EXPECT_EQ(DumpJson(json), json.dump());
  EXPECT_EQ(DumpJson(json, 2), json.dump(2));
}

TEST(DumpJson, ReplacesBytesThatAreNoText) {
  for (const std::string bytes : {"\xff", "\xc3", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80"}) {
    const std::string text = DumpJson({{bytes, bytes}});
    EXPECT_TRUE(Json::accept(text)) << text;
    EXPECT_NE(text.find("\xef\xbf\xbd"), std::string::npos) << text;
  }
}

TEST(Json, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(ValidUtf8("Größe \"\n"), "Größe \"\n");
  EXPECT_EQ(ValidUtf8("a\xff\xc3"), "a\uFFFD\uFFFD");
}

}  // namespace
}  // namespace torus
