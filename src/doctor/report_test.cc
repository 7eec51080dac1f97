#include "doctor/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace torus::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Finding Example(const std::string& id = "TD900") {
  return {.id = id,
          .name = "example",
          .cause = "It is so.",
          .evidence = {{"a.log", 7, "a line", 3}},
          .cure = "one\ntwo",
          .check = "look"};
}

TEST(Report, SaysCauseEvidenceAndCure) {
  const std::string text = ToText({Example()}, "well", false);
  EXPECT_EQ(text,
            "error: It is so.\n"
            "  seen   a.log:7: a line   (3 times)\n"
            "  cure   one\n"
            "         two\n"
            "  check  look\n"
            "  TD900 example, certain; docs/doctor/TD900.md\n");
  EXPECT_THAT(ToText({Example()}, "well", true), StartsWith("\x1b[31m"));
}

TEST(Report, IsQuietWhenAllIsWell) { EXPECT_EQ(ToText({}, "well", false), "well\n"); }

TEST(Report, IsAScreenAtMost) {
  const std::vector<Finding> many(20, Example());
  const std::string text = ToText(many, "well", false);
  EXPECT_LE(std::ranges::count(text, '\n'), 41);
  EXPECT_THAT(text, HasSubstr(" more: --format=json has all."));
  EXPECT_EQ(nlohmann::json::parse(ToJson(many))["findings"].size(), 20u);
}

TEST(Report, AsJsonHasAll) {
  const auto json = nlohmann::json::parse(ToJson({Example()}))["findings"][0];
  EXPECT_EQ(json["id"], "TD900");
  EXPECT_EQ(json["severity"], "error");
  EXPECT_EQ(json["evidence"][0]["line"], 7);
  EXPECT_EQ(json["page"], "docs/doctor/TD900.md");
}

}  // namespace
}  // namespace torus::doctor
