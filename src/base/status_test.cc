#include "base/status.h"

#include <gtest/gtest.h>

namespace torus {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgument("{} is odd; give an even number", value);
  return value / 2;
}

Result<int> Quarter(int value) {
  TORUS_ASSIGN_OR_RETURN(const int half, Half(value));
  return Half(half);
}

Status CheckEven(int value) {
  TORUS_RETURN_IF_ERROR(Half(value));
  return {};
}

TEST(Status, SaysCodeAndMessage) {
  EXPECT_EQ(Status().ToString(), "OK");
  EXPECT_EQ(CheckEven(3).ToString(), "INVALID_ARGUMENT: 3 is odd; give an even number");
}

TEST(Status, NamesEveryCanonicalCode) {
  EXPECT_EQ(CodeName(Code::kOk), "OK");
  EXPECT_EQ(CodeName(Code::kFailedPrecondition), "FAILED_PRECONDITION");
  EXPECT_EQ(CodeName(Code::kUnauthenticated), "UNAUTHENTICATED");
  EXPECT_EQ(CodeName(static_cast<Code>(99)), "UNKNOWN");
}

TEST(Status, MacrosPassValuesAndErrorsOn) {
  EXPECT_EQ(Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(CheckEven(4).ok());
}

}  // namespace
}  // namespace torus
