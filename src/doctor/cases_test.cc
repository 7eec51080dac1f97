// tests/doctor/TD….yaml: for each kind of finding, logs that show it and logs that do not.
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>

#include "doctor/diagnosis.h"
#include "doctor/facts.h"
#include "doctor/log_text.h"

namespace torus::doctor {
namespace {

constexpr size_t kLeast = 5;  // cases of each sort

YAML::Node CasesOf(const std::string& id) { return YAML::LoadFile(TORUS_CASES "/" + id + ".yaml"); }

// A case's log; in it, what stands after "fact: " is one.
std::vector<Finding> Diagnose(const std::string& log) {
  Diagnosis diagnosis;
  std::vector<std::string> facts;
  LogText text([&](std::string_view line) {
    if (line.starts_with("fact: ")) {
      facts.emplace_back(line.substr(6));
    } else {
      diagnosis.AddLine("log", line);
    }
  });
  text.Add(log);
  text.End();
  for (const auto& more : Conclusions(facts)) facts.push_back(more);
  for (const auto& fact : facts) diagnosis.AddFact("here", fact);
  return diagnosis.Findings();
}

const Finding* Find(const std::vector<Finding>& findings, const std::string& id) {
  const auto found = std::ranges::find(findings, id, &Finding::id);
  return found == findings.end() ? nullptr : &*found;
}

std::vector<std::string> Ids() {
  std::vector<std::string> ids;
  for (const Kind& kind : Knowledge::BuiltIn().kinds()) ids.push_back(kind.id);
  return ids;
}

class Cases : public testing::TestWithParam<std::string> {};

TEST_P(Cases, AreFound) {
  const auto cases = CasesOf(GetParam())["found"];
  EXPECT_GE(cases.size(), kLeast);
  for (const auto& each : cases) {
    const auto log = each["log"].as<std::string>();
    const auto findings = Diagnose(log);
    const Finding* finding = Find(findings, GetParam());
    ASSERT_NE(finding, nullptr) << log;
    for (const char* part : {"cause", "cure"}) {
      const auto& text = part == std::string("cause") ? finding->cause : finding->cure;
      EXPECT_NE(text.find(each[part].as<std::string>("")), std::string::npos) << text << "\n"
                                                                              << log;
      // Each value that the text names is known.
      EXPECT_EQ(text.find('{'), std::string::npos) << text << "\n" << log;
    }
  }
}

TEST_P(Cases, HaveAnExampleThatShowsThem) {
  const auto& kinds = Knowledge::BuiltIn().kinds();
  const auto& kind = *std::ranges::find(kinds, GetParam(), &Kind::id);
  std::string log;  // one line stands for the many that it takes
  for (int64_t i = 0; i < kind.times; ++i) log += kind.example + "\n";
  EXPECT_NE(Find(Diagnose(log), GetParam()), nullptr) << kind.example;
}

TEST_P(Cases, AreNotFoundWhereTheyAreNot) {
  const auto cases = CasesOf(GetParam())["not_found"];
  EXPECT_GE(cases.size(), kLeast);
  for (const auto& each : cases) {
    const auto log = each["log"].as<std::string>();
    EXPECT_EQ(Find(Diagnose(log), GetParam()), nullptr) << log;
  }
}

INSTANTIATE_TEST_SUITE_P(Knowledge, Cases, testing::ValuesIn(Ids()),
                         [](const auto& info) { return info.param; });

TEST(CaseFiles, AreOfKindsThatThereAre) {
  const auto ids = Ids();
  for (const auto& file : std::filesystem::directory_iterator(TORUS_CASES)) {
    if (file.path().extension() != ".yaml" || file.path().stem() == "corpus") continue;
    EXPECT_NE(std::ranges::find(ids, file.path().stem().string()), ids.end()) << file.path();
  }
}

}  // namespace
}  // namespace torus::doctor
