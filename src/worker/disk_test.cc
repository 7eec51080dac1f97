#include "worker/disk.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace torus::worker {
namespace {

constexpr int64_t kGiB = 1 << 30;

TEST(Disk, AVmMayFillWhatTheHostHasButForTheHostsOwnPart) {
  // A twentieth is the host's own, at least 2 GiB and at most 8.
  EXPECT_EQ(internal::Allowance({.size = 100 * kGiB, .free = 50 * kGiB}, 2 * kGiB), 45 * kGiB);
  EXPECT_EQ(internal::Allowance({.size = 1000 * kGiB, .free = 50 * kGiB}, 2 * kGiB), 42 * kGiB);
  EXPECT_EQ(internal::Allowance({.size = 10 * kGiB, .free = 5 * kGiB}, 2 * kGiB), 3 * kGiB);
  EXPECT_EQ(internal::Allowance({.size = 100 * kGiB, .free = 4 * kGiB}, 2 * kGiB), -kGiB);
}

TEST(Disk, AVmThatHasTakenLittleMayUseHalfOfTheHostsPart) {
  EXPECT_EQ(internal::Allowance({.size = 100 * kGiB, .free = 4 * kGiB}, 0), kGiB + kGiB / 2);
  EXPECT_EQ(internal::Allowance({.size = 100 * kGiB, .free = 2 * kGiB}, 0), -kGiB / 2);
}

TEST(Disk, OnlyAHostWithoutLoopDevicesLeavesAVmWithoutADiskOfItsOwn) {
  for (const int never : {ENOENT, ENODEV, ENXIO, EPERM, EACCES, ENOTTY, EINVAL})
    EXPECT_EQ(internal::LoopStatus(never, "x").code(), Code::kUnimplemented) << never;
  for (const int passes : {EMFILE, ENFILE, ENOMEM, EINTR, ENOSPC, EBUSY, EIO})
    EXPECT_EQ(internal::LoopStatus(passes, "x").code(), Code::kUnavailable) << passes;
}

}  // namespace
}  // namespace torus::worker
