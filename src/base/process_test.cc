#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace torus {
namespace {

TEST(Process, TellsAReusedPidApart) {
  const auto self = IdentifyProcess(getpid());
  ASSERT_TRUE(self);
  EXPECT_TRUE(IsAlive(*self));
  EXPECT_FALSE(IsAlive({self->pid, self->start_ticks + 1}));
  EXPECT_FALSE(IdentifyProcess(0));
}

TEST(Process, WhatCannotBeToldIsNotTakenForDead) {
  const auto self = IdentifyProcess(getpid());
  ASSERT_TRUE(self);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto found = FindProcess(getpid());
  const bool alive = IsAlive(*self);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(found);
  EXPECT_TRUE(alive);
  EXPECT_EQ(*FindProcess(getpid()), self);
}

// Runs `body` in a child process and returns its exit status.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(Process, ALockNamesItsHolderAndGoesWithIt) {
  const std::string path = ::testing::TempDir() + "/lock";
  unlink(path.c_str());
  EXPECT_FALSE(LockHolder(path)) << "there is no file";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const auto taken = TakeLock(path);
    (void)!write(ready[1], taken && *taken ? "y" : "n", 1);
    pause();
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(LockHolder(path), IdentifyProcess(holder));
  EXPECT_EQ(InChild([&] { return *TakeLock(path) ? 1 : 0; }), 0) << "another has it";
  kill(holder, SIGSTOP);
  EXPECT_EQ(LockHolder(path), IdentifyProcess(holder)) << "one that hangs still has it";
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  EXPECT_FALSE(LockHolder(path));
  EXPECT_EQ(InChild([&] { return *TakeLock(path) ? 1 : 0; }), 1);
}

}  // namespace
}  // namespace torus
