#include "service/store/data_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace torus::store {
namespace {

using ::testing::HasSubstr;

TEST(DataFolder, HasOneUserAtATime) {
  const auto path =
      std::filesystem::temp_directory_path() / ("data_folder_test_" + std::to_string(getpid()));
  {
    const auto first = DataFolder::Open(path / "deep");
    ASSERT_TRUE(first) << first.error().ToString();
    const auto second = DataFolder::Open(path / "deep");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), Code::kFailedPrecondition);
    EXPECT_THAT(second.error().message(), HasSubstr("pid " + std::to_string(getpid())));
  }
  EXPECT_TRUE(DataFolder::Open(path / "deep"));
  std::filesystem::remove_all(path);
}

TEST(DataFolder, IsPrivateAndLeavesOthersFoldersAlone) {
  const auto path =
      std::filesystem::temp_directory_path() / ("data_folder_mode_" + std::to_string(getpid()));
  ASSERT_TRUE(DataFolder::Open(path / "made"));
  EXPECT_EQ(std::filesystem::status(path / "made").permissions(),
            std::filesystem::perms::owner_all);
  std::filesystem::create_directories(path / "theirs/files");
  const auto before = std::filesystem::status(path / "theirs").permissions();
  const auto folder = DataFolder::Open(path / "theirs");
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message(), HasSubstr("holds other files"));
  EXPECT_EQ(std::filesystem::status(path / "theirs").permissions(), before);
  std::filesystem::create_directories(path / "empty");
  EXPECT_TRUE(DataFolder::Open(path / "empty"));
  EXPECT_EQ(std::filesystem::status(path / "empty").permissions(),
            std::filesystem::perms::owner_all);
  std::filesystem::remove_all(path);
}

TEST(DataFolder, RefusesWhatOthersMayWriteTo) {
  const auto path =
      std::filesystem::temp_directory_path() / ("data_folder_open_" + std::to_string(getpid()));
  std::filesystem::create_directories(path / "shared");
  ASSERT_EQ(chmod((path / "shared").c_str(), 01777), 0);
  const auto shared = DataFolder::Open(path / "shared");
  ASSERT_FALSE(shared);
  EXPECT_THAT(shared.error().message(), HasSubstr("shared by all users"));
  std::filesystem::create_directories(path / "linked");
  std::filesystem::create_symlink(path / "victim", path / "linked/lock");
  std::ofstream(path / "victim") << "precious";
  EXPECT_FALSE(DataFolder::Open(path / "linked"));
  EXPECT_EQ(std::filesystem::file_size(path / "victim"), 8U) << "a lock that leads elsewhere";
  if (geteuid() == 0) {  // others than root cannot give a folder away
    std::filesystem::create_directories(path / "theirs");
    ASSERT_EQ(chown((path / "theirs").c_str(), 65534, 65534), 0);
    const auto theirs = DataFolder::Open(path / "theirs");
    ASSERT_FALSE(theirs);
    EXPECT_THAT(theirs.error().message(), HasSubstr("another user (uid 65534)"));
  }
  std::filesystem::remove_all(path);
}

TEST(DataFolder, SaysWhyItCannotBeMade) {
  const auto folder = DataFolder::Open("/proc/torus");
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message(), HasSubstr("/proc/torus"));
  EXPECT_THAT(folder.error().message(), HasSubstr("--data-dir"));
}

}  // namespace
}  // namespace torus::store
