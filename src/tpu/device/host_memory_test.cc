#include "tpu/device/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace torus::tpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// A /proc and a cgroup tree of our own.
class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest()
      : root_(::testing::TempDir() + "/host_memory_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    Write("proc/meminfo", "MemTotal: 99 kB\nMemAvailable:   8388608 kB\n");  // 8 GiB
  }
  ~HostMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  HostMemory Make(int64_t limit = 0) { return {limit, {root_ + "/proc", root_ + "/cgroup"}}; }

  const std::string root_;
};

TEST_F(HostMemoryTest, IsWhatTheKernelSaysIsAvailable) {
  const auto free = Make().Free();
  EXPECT_EQ(free.bytes, 8 * kGiB);
  EXPECT_EQ(free.by, "MemAvailable");
}

TEST_F(HostMemoryTest, IsBoundByEachCgroupOfV2) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("cgroup/a/b/memory.max", "max\n");
  Write("cgroup/a/b/memory.current", "4096\n");
  Write("cgroup/a/memory.max", std::to_string(2 * kGiB));
  Write("cgroup/a/memory.current", std::to_string(kGiB));
  Write("cgroup/a/memory.stat", "anon 5\ninactive_file " + std::to_string(kMiB) + "\n");
  const auto free = Make().Free();
  EXPECT_EQ(free.bytes, kGiB + kMiB);
  EXPECT_THAT(free.by, HasSubstr("cgroup"));
}

TEST_F(HostMemoryTest, IsBoundByTheCgroupOfV1) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/vm\n0::/\n");
  Write("cgroup/memory/vm/memory.limit_in_bytes", std::to_string(3 * kGiB));
  Write("cgroup/memory/vm/memory.usage_in_bytes", std::to_string(kGiB));
  Write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  Write("cgroup/memory/memory.usage_in_bytes", "1");
  EXPECT_EQ(Make().Free().bytes, 2 * kGiB);
}

TEST_F(HostMemoryTest, FindsItsGroupAtTheRootOfAContainer) {
  Write("proc/self/cgroup", "0::/host/path/not/seen/here\n");
  Write("cgroup/memory.max", std::to_string(kGiB));
  Write("cgroup/memory.current", "0");
  EXPECT_EQ(Make().Free().bytes, kGiB);
}

TEST_F(HostMemoryTest, IsBoundByTheDescriptionLessWhatTheProcessHolds) {
  Write("proc/self/status", "Name: x\nRssAnon:\t 1048576 kB\n");
  const auto free = Make(4 * kGiB).Free();
  EXPECT_EQ(free.bytes, 3 * kGiB);
  EXPECT_EQ(free.by, "the TPU VM's memory limit");
}

TEST_F(HostMemoryTest, RefusesWhatDoesNotFitTheHost) {
  HostMemory host = Make();
  EXPECT_TRUE(host.Check(7 * kGiB, "jit_f").ok());
  const Status status = host.Check(9 * kGiB, "jit_f");
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("jit_f needs 9.00G, which fits the chip, not this host"),
                    HasSubstr("MemAvailable")));
}

TEST_F(HostMemoryTest, CountsPromisedPagesAsUsed) {
  HostMemory host = Make();
  host.Promise(6 * kGiB);
  EXPECT_FALSE(host.Check(3 * kGiB, "a buffer").ok());
  host.Settle(6 * kGiB);
  EXPECT_TRUE(host.Check(3 * kGiB, "a buffer").ok());
}

TEST_F(HostMemoryTest, LooksAgainAfterManySmallRequests) {
  HostMemory host = Make();
  EXPECT_TRUE(host.Check(1, "the first request looks").ok());
  Write("proc/meminfo", "MemAvailable: 1024 kB\n");
  int admitted = 0;
  while (admitted < 1000 && host.Check(kMiB, "a small buffer").ok()) ++admitted;
  EXPECT_EQ(admitted, HostMemory::kLookEvery / kMiB - 1);
  EXPECT_FALSE(host.Check(1, "the next one is refused at once").ok());
}

TEST_F(HostMemoryTest, HasNoBoundWhereTheKernelTellsNothing) {
  HostMemory host(0, {root_ + "/none", root_ + "/none"});
  EXPECT_TRUE(host.Check(1000 * kGiB, "anything").ok());
}

}  // namespace
}  // namespace torus::tpu
