#include "doctor/knowledge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/values.h"

namespace torus::doctor {
namespace {

using ::testing::HasSubstr;

constexpr char kOne[] = R"(
[[finding]]
id = "TD900"
name = "one"
signs = ['''number (?P<n>\d+)''']
cause = "{n}"
cure = "c"
check = "k"
)";

std::string ErrorOf(const std::string& text) {
  const auto read = Knowledge::Parse(text);
  return read ? "" : std::string(read.error().message());
}

TEST(Knowledge, MatchesAndCaptures) {
  const auto one = Knowledge::Parse(kOne);
  ASSERT_TRUE(one.has_value()) << one.error().message();
  ASSERT_EQ(one->Match("the number 12 of \xff"), std::vector{0});
  EXPECT_EQ(one->Capture(0, "the number 12 of \xff").at("n"), "12");
  EXPECT_TRUE(one->Match("no number").empty());
}

TEST(Knowledge, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(ErrorOf(std::string(kOne) + "colour = 1\n"), HasSubstr("unknown key \"colour\""));
  EXPECT_THAT(ErrorOf(std::string(kOne) + "unless = ['(']\n"), HasSubstr("\"(\" is no pattern"));
  EXPECT_THAT(ErrorOf(std::string(kOne) + "severity = 'bad'\n"), HasSubstr("knowledge.toml:9"));
  EXPECT_THAT(ErrorOf(std::string(kOne) + kOne), HasSubstr("TD900 is there twice"));
  EXPECT_THAT(ErrorOf("[[finding]]\nid = 'TD1'\n"), HasSubstr("needs its name"));
  EXPECT_THAT(ErrorOf("= 1"), HasSubstr("knowledge.toml:1"));
  EXPECT_NE(ErrorOf(""), "");
}

// Whichever sign is seen, the texts have all their values.
TEST(Knowledge, HasAValueForEachPlace) {
  const auto& knowledge = Knowledge::BuiltIn();
  for (const Kind& kind : knowledge.kinds()) {
    for (const int sign : kind.signs) {
      Values values = kind.defaults;
      for (const auto& name : knowledge.NamesOf(sign)) values[name] = "1";
      for (const int other : kind.with)
        for (const auto& name : knowledge.NamesOf(other)) values[name] = "1";
      values["times"] = "1";
      values[std::string(DerivedBy(kind.derive))] = "1";
      for (const auto& text : {kind.cause, kind.cure, kind.check})
        EXPECT_EQ(Fill(text, values).find('{'), std::string::npos) << kind.id << ": " << text;
    }
    EXPECT_EQ(kind.derive.empty(), DerivedBy(kind.derive).empty()) << kind.id;
  }
}

}  // namespace
}  // namespace torus::doctor
