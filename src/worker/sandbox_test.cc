#include "worker/sandbox.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace torus::worker {
namespace {

using std::chrono::milliseconds;

TEST(Sandbox, ThatNoDescriptorIsLeftIsNoSilenceOfSshd) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  const Sandbox sandbox(VmPaths("/nonexistent", "u", 0));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto answers = Sandbox::SshAnswers("127.0.0.1", milliseconds(100));
  const auto live = sandbox.Live();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(answers);
  EXPECT_EQ(answers.error().code(), Code::kUnavailable) << "it passes";
  EXPECT_FALSE(live) << "nor is it a sign that the VM is dead";
  EXPECT_TRUE(Sandbox::SshAnswers("127.0.0.1", milliseconds(100)));
  EXPECT_FALSE(*sandbox.Live());
}

}  // namespace
}  // namespace torus::worker
