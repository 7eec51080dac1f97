#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
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

TEST_F(FileTest, FoldersHaveTheirModeWhateverTheUmask) {
  const mode_t before = umask(0077);
  const Status made = MakeFolders(folder_ + "/a/b/c", 0755);
  umask(before);
  ASSERT_TRUE(made.ok());
  for (const char* path : {"/a", "/a/b", "/a/b/c"}) {
    struct stat info;
    ASSERT_EQ(stat((folder_ + path).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0755u) << path;
  }
}

TEST_F(FileTest, RemovesNothingThroughAMount) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount";
  const std::string kept = folder_ + "/kept", tree = folder_ + "/a tree";
  ASSERT_TRUE(MakeFolders(kept + "/sub").ok());
  ASSERT_TRUE(WriteFile(kept + "/file", "x").ok());
  ASSERT_TRUE(MakeFolders(tree + "/bound").ok());
  ASSERT_TRUE(MakeFolders(tree + "/proc").ok());
  // A bind mount has the tree's own device, which rm's --one-file-system does not stop at.
  ASSERT_EQ(mount(kept.c_str(), (tree + "/bound").c_str(), nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(mount("none", (tree + "/bound/sub").c_str(), "tmpfs", 0, nullptr), 0);
  ASSERT_EQ(mount("proc", (tree + "/proc").c_str(), "proc", 0, nullptr), 0);
  ASSERT_EQ(symlink("a tree", (folder_ + "/link").c_str()), 0);
  ASSERT_TRUE(RemoveTree(folder_ + "/link").ok());
  EXPECT_TRUE(std::filesystem::exists(tree + "/bound/file")) << "a link is not followed";
  const Status removed = RemoveTree(tree);
  EXPECT_TRUE(removed.ok()) << removed.ToString();
  EXPECT_FALSE(std::filesystem::exists(tree));
  EXPECT_EQ(*ReadFile(kept + "/file"), "x");
  EXPECT_EQ(ReadFile("/proc/self/mountinfo")->find(folder_), std::string::npos);
}

}  // namespace
}  // namespace torus
