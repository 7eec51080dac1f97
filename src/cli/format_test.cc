// Formats: what they print, and what a wrong one is told.
#include "cli/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

namespace torus::cli {
namespace {

using ::testing::HasSubstr;

const Json& Node() {
  static const Json node = Json::parse(R"({
    "name": "projects/p/locations/us-central1-a/nodes/my-tpu",
    "state": "READY",
    "networkEndpoints": [{"ipAddress": "10.0.0.1"}, {"ipAddress": "10.0.0.2"}],
    "done": true, "count": 3, "nothing": null, "tags": ["a", "b"], "labels": {"k": "v"}})");
  return node;
}

std::string CellOf(std::string_view column) {
  auto columns = ParseColumns(column);
  return columns ? Cell(Node(), columns->front()) : columns.error().message();
}

TEST(Columns, FindTheirValue) {
  EXPECT_EQ(CellOf("state"), "READY");
  EXPECT_EQ(CellOf("name.basename()"), "my-tpu");
  EXPECT_EQ(CellOf("name.segment(-3)"), "us-central1-a");
  EXPECT_EQ(CellOf("name.segment(1)"), "p");
  EXPECT_EQ(CellOf("name.segment(9)"), "");
  EXPECT_EQ(CellOf("networkEndpoints[1].ipAddress"), "10.0.0.2");
  EXPECT_EQ(CellOf("networkEndpoints[2].ipAddress"), "");
  EXPECT_EQ(CellOf("done"), "True");
  EXPECT_EQ(CellOf("count"), "3");
  EXPECT_EQ(CellOf("nothing"), "");
  EXPECT_EQ(CellOf("tags"), "a;b");
  EXPECT_EQ(CellOf("tags[]"), "a;b");
  EXPECT_EQ(CellOf("labels.k"), "v");
  EXPECT_EQ(CellOf("labels.absent.deeper"), "");
}

TEST(Columns, AreTitledAsGcloudDoes) {
  auto columns = ParseColumns("acceleratorType, name.basename(), state:label=STATUS");
  ASSERT_TRUE(columns);
  EXPECT_EQ((*columns)[0].label, "ACCELERATOR_TYPE");
  EXPECT_EQ((*columns)[1].label, "NAME");
  EXPECT_EQ((*columns)[2].label, "STATUS");
}

TEST(Columns, MistakesAreNamed) {
  for (const char* text : {"", "name.", "name.shout()", "name.segment(x)", "a[b]", "a[1", "f(x)"}) {
    auto columns = ParseColumns(text);
    ASSERT_FALSE(columns) << text;
    EXPECT_THAT(columns.error().message(), HasSubstr("is not a column"));
  }
  EXPECT_THAT(ParseColumns("name:sort=1").error().message(), HasSubstr("label=TITLE"));
}

TEST(Table, IsAsWideAsItsCells) {
  const Json rows = Json::parse(R"([{"name":"é","state":"READY"},{"name":"long-name"}])");
  EXPECT_EQ(PrintTable(rows, *ParseColumns("name, state")),
            "NAME       STATE\n"
            "é          READY\n"
            "long-name\n");
}

TEST(Yaml, ReadsBackAsTheSameTypes) {
  const Json value = Json::parse(R"({
    "text": "plain", "bool_text": "true", "number_text": "123", "float_text": "1e5",
    "date_text": "2026-11-30T10:00:00Z", "empty": "", "colon": "a: b", "hash": "a #b",
    "lines": "a\nb\n", "quote": "it's", "dash": "- x", "star": "*x", "y": "no",
    "number": 7, "bool": false, "null": null, "list": ["a", {"b": "c"}], "none": {}, "no": []})");
  const YAML::Node back = YAML::Load(PrintYaml(value));
  for (const auto& [key, each] : value.items()) {
    if (!each.is_string()) continue;
    EXPECT_EQ(back[key].Scalar(), each.get<std::string>()) << key;
  }
  EXPECT_THAT(PrintYaml(value), HasSubstr("bool_text: 'true'"));
  EXPECT_THAT(PrintYaml(value), HasSubstr("number_text: '123'"));
  EXPECT_THAT(PrintYaml(value), HasSubstr("date_text: '2026"));
  EXPECT_THAT(PrintYaml(value), HasSubstr("text: plain"));
  EXPECT_THAT(PrintYaml(value), HasSubstr("number: 7"));
  EXPECT_EQ(back["number"].as<int>(), 7);
  EXPECT_EQ(back["list"][1]["b"].as<std::string>(), "c");
  EXPECT_TRUE(back["null"].IsNull());
  EXPECT_TRUE(back["none"].IsMap());
  EXPECT_TRUE(back["no"].IsSequence());
}

TEST(Formats, PrintOneAndMany) {
  const Json many = Json::array({Node(), Node()});
  EXPECT_EQ(Format::Parse("value(state, count)")->PrintList(many, ""), "READY\t3\nREADY\t3\n");
  EXPECT_EQ(Format::Parse("none")->PrintList(many, "name"), "");
  EXPECT_EQ(Format::Parse("")->PrintList(Json::array(), "name"), "");
  EXPECT_EQ(Format::Parse("json")->PrintList(Json::array(), "name"), "[]\n");
  EXPECT_EQ(Format::Parse("table(state:label=S)")->PrintList(many, "name"), "S\nREADY\nREADY\n");
  EXPECT_EQ(Format::Parse("")->PrintList(many, "state"), "STATE\nREADY\nREADY\n");
  EXPECT_THAT(Format::Parse("")->Print(Node(), "name"), HasSubstr("state: READY\n"));
  EXPECT_EQ(YAML::LoadAll(Format::Parse("yaml")->PrintList(many, "")).size(), 2u);
  EXPECT_EQ(Json::parse(Format::Parse("json")->Print(Node(), "")), Node());
}

TEST(Formats, KeepTheServicesOrder) {
  const std::string text = Format::Parse("json")->Print(Json::parse(R"({"z":1,"a":2})"), "");
  EXPECT_LT(text.find("\"z\""), text.find("\"a\""));
}

TEST(Formats, MistakesSayWhatIsValid) {
  for (const char* text : {"xml", "json(name)", "value", "value(", "table(x"}) {
    auto format = Format::Parse(text);
    ASSERT_FALSE(format) << text;
    EXPECT_EQ(format.error().code(), Code::kInvalidArgument);
  }
  EXPECT_THAT(Format::Parse("xml").error().message(), HasSubstr("valid formats: json, yaml"));
}

}  // namespace
}  // namespace torus::cli
