#include "base/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace torus {
namespace {

TEST(Process, TellsAReusedPidApart) {
  const auto self = IdentifyProcess(getpid());
  ASSERT_TRUE(self);
  EXPECT_TRUE(IsAlive(*self));
  EXPECT_FALSE(IsAlive({self->pid, self->start_ticks + 1}));
  EXPECT_FALSE(IdentifyProcess(0));
}

TEST(Process, ReadsWhatItWrites) {
  EXPECT_EQ(ParseIdentity(FormatIdentity({12, 34})), (ProcessIdentity{12, 34}));
  EXPECT_FALSE(ParseIdentity("12"));
  EXPECT_FALSE(ParseIdentity("x y"));
}

}  // namespace
}  // namespace torus
