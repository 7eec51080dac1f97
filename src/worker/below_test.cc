#include "worker/below.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;

class BelowTest : public ::testing::Test {
 protected:
  BelowTest() : folder_(fs::path(::testing::TempDir()) / "below") {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "root/var/log");
    std::ofstream(folder_ / "outside") << "host's\n";
    root_ = Fd(open((folder_ / "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  void Append(const std::string& text, int64_t most = 1000) {
    AppendBelow(root_.get(), "var/log/doctor.log", text, getuid(), most);
  }
  std::string Log() const { return ReadFile(log()).value_or("none"); }
  fs::path log() const { return folder_ / "root/var/log/doctor.log"; }

  fs::path folder_;
  Fd root_;
};

TEST_F(BelowTest, ALogIsMadeAndGrowsAndIsBegunAnew) {
  Append("one\n");
  Append("two\n", 7);
  EXPECT_EQ(Log(), "one\ntwo\n");
  Append("three\n", 7);
  EXPECT_EQ(Log(), "three\n");
}

TEST_F(BelowTest, NoLinkIsFollowed) {
  fs::create_symlink("../../../outside", log());
  Append("mine\n");
  EXPECT_EQ(ReadFile(folder_ / "outside").value_or(""), "host's\n");
  fs::remove_all(folder_ / "root/var/log");
  fs::create_symlink(folder_, folder_ / "root/var/log");
  Append("mine\n");
  EXPECT_FALSE(fs::exists(folder_ / "doctor.log"));
  EXPECT_EQ(ReadBelow(root_.get(), "var/log/outside", 100), "");
  EXPECT_EQ(ReadBelow(root_.get(), "../outside", 100), "");
}

TEST_F(BelowTest, NothingIsWaitedFor) {
  ASSERT_EQ(mkfifo(log().c_str(), 0666), 0);
  Append("mine\n");  // nobody reads it
  EXPECT_EQ(ReadBelow(root_.get(), "var/log/doctor.log", 100), "");
  fs::remove(log());
  fs::create_directory(log());
  Append("mine\n");
  EXPECT_EQ(ReadBelow(root_.get(), "var/log/doctor.log", 100), "");
}

TEST_F(BelowTest, AFileThatIsTooLargeIsNone) {
  Append("0123456789");
  EXPECT_EQ(ReadBelow(root_.get(), "var/log/doctor.log", 10), "0123456789");
  EXPECT_EQ(ReadBelow(root_.get(), "var/log/doctor.log", 9), "");
}

}  // namespace
}  // namespace torus::worker
