#include "tpu/device/chips_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace torus::tpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A process that locks the chips, says so and waits.
class Holder {
 public:
  Holder(const std::string& path, std::vector<int> chips) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const char ok = LockChips(path, chips).ok() ? 'y' : 'n';
      (void)!write(ready[1], &ok, 1);
      while (true) pause();
    }
    EXPECT_EQ(read(ready[0], &answer_, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~Holder() { Kill(); }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  pid_t pid() const { return pid_; }
  bool has_it() const { return answer_ == 'y'; }

 private:
  pid_t pid_ = 0;
  char answer_ = 0;
};

TEST(ChipsLock, NamesWhoHasTheChipsAndTakesThemFromTheDead) {
  const std::string path = ::testing::TempDir() + "/chips_lock";
  const int first[] = {0, 1}, second[] = {2, 3};
  Holder holder(path, {0, 1});
  ASSERT_TRUE(holder.has_it());
  const Status refused = LockChips(path, first);
  EXPECT_EQ(refused.code(), Code::kAborted);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr(fmt::format("The TPU is already in use by process with pid {} (",
                                          holder.pid())),
                    HasSubstr("device_test")));
  EXPECT_TRUE(LockChips(path, second).ok());  // other chips of the node
  EXPECT_FALSE(Holder(path, {3}).has_it());
  holder.Kill();
  EXPECT_TRUE(LockChips(path, first).ok());
  EXPECT_TRUE(LockChips(path, first).ok());  // they are ours already
}

TEST(ChipsLock, SaysWhichFileCannotBeOpened) {
  const int chips[] = {0};
  EXPECT_THAT(LockChips("/no/such/folder/lock", chips).message(),
              HasSubstr("/no/such/folder/lock"));
}

}  // namespace
}  // namespace torus::tpu
