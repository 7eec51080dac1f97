#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
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

TEST(Process, ReadsWhatItWrites) {
  EXPECT_EQ(ParseIdentity(FormatIdentity({12, 34})), (ProcessIdentity{12, 34}));
  EXPECT_FALSE(ParseIdentity("12"));
  EXPECT_FALSE(ParseIdentity("x y"));
}

}  // namespace
}  // namespace torus
