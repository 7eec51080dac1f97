#include "service/model/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::model {
namespace {

using ::testing::HasSubstr;

TEST(Names, ReadWhatTheyWrite) {
  const auto node = ParseResource("projects/p/locations/us-central1-a/nodes/n1", "nodes");
  ASSERT_TRUE(node);
  EXPECT_EQ(node->location.project, "p");
  EXPECT_EQ(node->location.zone, "us-central1-a");
  EXPECT_EQ(node->id, "n1");
  EXPECT_EQ(node->name(), "projects/p/locations/us-central1-a/nodes/n1");
  EXPECT_TRUE(ParseLocation("projects/p/locations/-")->all_zones());
  EXPECT_EQ(*ParseProject("projects/example.com:p-1"), "example.com:p-1");
}

TEST(Names, RefuseOtherForms) {
  for (const char* name : {"", "/", "projects", "projects/", "projects/p/locations", "projects/P",
                           "project/p/locations/z", "projects/p/locations/z/nodes/n/x",
                           "projects//locations/z/nodes/n", "projects/p/locations/z/nodes/",
                           "projects/p/locations/z/operations/o"}) {
    const auto node = ParseResource(name, "nodes");
    ASSERT_FALSE(node) << name;
    EXPECT_EQ(node.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(node.error().message(), HasSubstr(std::string("\"") + name + "\""));
  }
}

TEST(NodeId, FollowsUpstreamsRule) {
  for (const char* id : {"a", "my-first-tpu", "n1", "a-1-b"})
    EXPECT_TRUE(CheckNodeId(id).ok()) << id;
  for (const char* id : {"", "1n", "-n", "n-", "N", "my_tpu", "n.1", "n/1", "é"})
    EXPECT_EQ(CheckNodeId(id).code(), Code::kInvalidArgument) << id;
  EXPECT_TRUE(CheckNodeId(std::string(63, 'a')).ok());
  EXPECT_FALSE(CheckNodeId(std::string(64, 'a')).ok());
}

TEST(Label, FollowsUpstreamsRule) {
  EXPECT_TRUE(CheckLabel("team", "blue_1").ok());
  EXPECT_TRUE(CheckLabel("team", "").ok());
  EXPECT_FALSE(CheckLabel("", "x").ok());
  EXPECT_FALSE(CheckLabel("Team", "x").ok());
  EXPECT_FALSE(CheckLabel("1team", "x").ok());
  EXPECT_FALSE(CheckLabel("team", "Blue").ok());
  EXPECT_FALSE(CheckLabel("team", std::string(64, 'a')).ok());
}

TEST(ProjectNumber, IsStableAndTwelveDigits) {
  EXPECT_EQ(ProjectNumber("torus"), ProjectNumber("torus"));
  EXPECT_NE(ProjectNumber("torus"), ProjectNumber("other"));
  EXPECT_EQ(std::to_string(ProjectNumber("torus")).size(), 12u);
  EXPECT_EQ(ProjectNumber("123456"), 123456);
}

}  // namespace
}  // namespace torus::model
