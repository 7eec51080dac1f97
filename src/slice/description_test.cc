#include "slice/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::slice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Description Example() {
  Description description;
  description.accelerator_type = "v2-8";
  description.topology = "2x2";
  description.chips_per_host = "2,2,1";
  description.hosts = "1,1,1";
  description.node_id = "my-first-tpu";
  description.node_uid = "8412973";
  description.zone = "us-central1-a";
  description.runtime_version = "tpu-ubuntu2204-base";
  description.worker_id = 3;
  description.worker_addresses = {"10.128.0.2", "10.128.0.3"};
  description.memory_limit_bytes = int64_t{6} << 30;
  return description;
}

TEST(Description, ComesBackFromItsTextForm) {
  const auto parsed = Parse(Format(Example()));
  ASSERT_TRUE(parsed) << parsed.error().ToString();
  EXPECT_EQ(parsed->accelerator_type, "v2-8");
  EXPECT_EQ(parsed->topology, "2x2");
  EXPECT_EQ(parsed->chips_per_host, "2,2,1");
  EXPECT_EQ(parsed->hosts, "1,1,1");
  EXPECT_EQ(parsed->node_id, "my-first-tpu");
  EXPECT_EQ(parsed->node_uid, "8412973");
  EXPECT_EQ(parsed->zone, "us-central1-a");
  EXPECT_EQ(parsed->runtime_version, "tpu-ubuntu2204-base");
  EXPECT_EQ(parsed->worker_id, 3);
  EXPECT_THAT(parsed->worker_addresses, ElementsAre("10.128.0.2", "10.128.0.3"));
  EXPECT_EQ(parsed->memory_limit_bytes, int64_t{6} << 30);
}

TEST(Description, HasUpstreamsFormOfALine) {
  EXPECT_THAT(Format(Example()), HasSubstr("ACCELERATOR_TYPE: 'v2-8'\n"));
  EXPECT_THAT(Format(Example()), HasSubstr("WORKER_ID: '3'\n"));
  EXPECT_THAT(Format(Example()), HasSubstr("TPU_PROCESS_BOUNDS: '1,1,1'\n"));  // PyTorch/XLA's
}

TEST(Description, LeavesOutWhatIsEmpty) {
  Description description;
  description.accelerator_type = "v4-8";
  EXPECT_EQ(Format(description),
            "ACCELERATOR_TYPE: 'v4-8'\nWORKER_ID: '0'\nTORUS_MEMORY_LIMIT_BYTES: '0'\n");
}

TEST(Description, AValueCannotBreakOutOfItsLine) {
  Description description = Example();
  description.node_id = "a'\nWORKER_ID: '9";
  const auto parsed = Parse(Format(description));
  ASSERT_TRUE(parsed) << parsed.error().ToString();
  EXPECT_EQ(parsed->node_id, "aWORKER_ID: 9");
  EXPECT_EQ(parsed->worker_id, 3);
}

TEST(Description, IgnoresUnknownKeysBlankLinesAndCarriageReturns) {
  const auto parsed = Parse("\r\nACCELERATOR_TYPE: 'v4-8'\r\n\nHOST_BOUNDS: '1,1,1'\nX:''");
  ASSERT_TRUE(parsed) << parsed.error().ToString();
  EXPECT_EQ(parsed->accelerator_type, "v4-8");
}

struct BadText {
  const char* text;
  const char* error;
};
class DescriptionErrors : public ::testing::TestWithParam<BadText> {};

TEST_P(DescriptionErrors, NameTheLineAndWhatItLacks) {
  const auto parsed = Parse(GetParam().text);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(parsed.error().message(), HasSubstr(GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    All, DescriptionErrors,
    ::testing::Values(
        BadText{"", "no line says ACCELERATOR_TYPE"}, BadText{"NODE_ID: 'a'\n", "ACCELERATOR_TYPE"},
        BadText{"\nhello\n", "line 2: 'hello' lacks a key"}, BadText{": 'v2-8'\n", "line 1"},
        BadText{"ACCELERATOR_TYPE: v2-8\n", "lacks its quotes"},
        BadText{"ACCELERATOR_TYPE: '", "lacks its quotes"},
        BadText{"ACCELERATOR_TYPE: 'v2'-8'\n", "line 1: the value of ACCELERATOR_TYPE has a quote"},
        BadText{"X: 'a\rb'\n", "line 1: the value of X has a quote or a line's end"},
        BadText{"ACCELERATOR_TYPE: 'v2-8'\nACCELERATOR_TYPE: 'v4-8'\n", "line 2: ACCELERATOR_TYPE"},
        BadText{"WORKER_ID: 'x'\n", "WORKER_ID is 'x'"},
        BadText{"WORKER_ID: '-1'\n", "whole number"}, BadText{"WORKER_ID: ''\n", "whole number"},
        BadText{"TORUS_MEMORY_LIMIT_BYTES: '1G'\n", "TORUS_MEMORY_LIMIT_BYTES is '1G'"},
        BadText{"TORUS_MEMORY_LIMIT_BYTES: '99999999999999999999'\n", "whole number"}));

}  // namespace
}  // namespace torus::slice
