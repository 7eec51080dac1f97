#include "doctor/values.h"

#include <gtest/gtest.h>

namespace torus::doctor {
namespace {

std::string Choices(const std::string& batch, const std::string& replicas) {
  Values values{{"batch", batch}, {"replicas", replicas}};
  Derive("multiples", values);
  return values.contains("choices") ? values["choices"] : "";
}

TEST(Derive, NamesTheMultiplesNextToABatch) {
  EXPECT_EQ(Choices("100", "8"), "96 or 104");
  EXPECT_EQ(Choices("5", "8"), "8");
  for (const auto& [batch, replicas] :
       {std::pair{"", "8"}, {"100", "0"}, {"x", "8"}, {"99999999999999999999", "8"}, {"-3", "8"}})
    EXPECT_EQ(Choices(batch, replicas), "") << batch;
}

TEST(Fill, PutsValuesIn) {
  const Values values{{"a", "1"}, {"b", "{a}"}};
  EXPECT_EQ(Fill("{a}+{b}={c}", values), "1+{a}={c}");
  EXPECT_EQ(Fill("{a", values), "{a");
  EXPECT_EQ(Fill("", values), "");
}

}  // namespace
}  // namespace torus::doctor
