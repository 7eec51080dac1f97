#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace torus {
namespace {

using ::testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/torus-file-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(folder_).ok()); }
  std::string folder_;
};

TEST_F(FileTest, ReplacesAFileWhole) {
  const std::string path = folder_ + "/a";
  ASSERT_TRUE(WriteFile(path, "one").ok());
  ASSERT_TRUE(WriteFile(path, "two", {.mode = 0600, .sync = true}).ok());
  EXPECT_EQ(*ReadFile(path), "two");
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FileTest, NamesThePathThatIsMissing) {
  const auto missing = ReadFile(folder_ + "/none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("/none"));
}

TEST_F(FileTest, MakesParentsAndRemovesDeepTrees) {
  const std::string deep = folder_ + "/a/b/c";
  ASSERT_TRUE(MakeFolders(deep, 0700).ok());
  ASSERT_TRUE(MakeFolders(deep, 0700).ok());
  ASSERT_TRUE(WriteFile(deep + "/file", "x").ok());
  EXPECT_EQ(MakeFolders(deep + "/file").code(), Code::kInternal);
  ASSERT_TRUE(RemoveTree(folder_ + "/a").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/a"));
  EXPECT_TRUE(RemoveTree(folder_ + "/a").ok());
}

}  // namespace
}  // namespace torus
