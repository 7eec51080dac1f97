#include "worker/vm_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace torus::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(VmProcesses, KnowsFrameworksByTheirLibraries) {
  EXPECT_EQ(FrameworkIn("7f-7f r-xp 0 0 0 /usr/lib/python3/tensorflow/libtensorflow_cc.so.2\n"),
            "tensorflow");
  EXPECT_EQ(FrameworkIn("7f-7f r-xp 0 0 0 /venv/jaxlib/libjax_common.so\n"), "jax");
  EXPECT_EQ(FrameworkIn("7f-7f r-xp 0 0 0 /venv/_XLAC.cpython-311.so\n"), "torch-xla");
  EXPECT_EQ(FrameworkIn("7f-7f r-xp 0 0 0 /usr/lib/libc.so.6\n"), "");
}

TEST(VmProcesses, TakesThePidOfTheInnermostNamespace) {
  EXPECT_EQ(InnermostPid("Name:\tpython3\nNSpid:\t4711\t12\nUid:\t0\n"), 12);
  EXPECT_EQ(InnermostPid("Name:\tpython3\nNSpid:\t4711\n"), 4711);
  EXPECT_EQ(InnermostPid("Name:\tx\n"), 0);
}

TEST(VmProcesses, FindsTheTerminal) {
  EXPECT_EQ(TerminalOf("12 (a) b) S 1 12 12 34818 12 0"), 3);  // /dev/pts/2
  EXPECT_EQ(TerminalOf("12 (python3) S 1 12 12 0 -1 0"), 0);
  EXPECT_EQ(TerminalOf("12 (python3) S 1 12 12 1025 -1 0"), 0) << "a console";
  EXPECT_EQ(TerminalOf("no text of the kind"), 0);
}

TEST(VmProcesses, FindsConnectionsToAWorker) {
  constexpr char kTable[] =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode\n"
      "   0: 0100007F:2116 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 111 1\n"
      "   1: 0200800A:D431 0300800A:2116 01 00000000:00000000 00:00000000 00000000  0  0 222 1\n"
      "short\n";
  EXPECT_THAT(SocketsToWorkers(kTable), ElementsAre("222"));
  EXPECT_THAT(SocketsToWorkers(""), IsEmpty());
}

TEST(VmProcesses, SeesAProgramWithAFramework) {
  // A mapped file of that name is all that a library is from outside.
  const auto folder = std::filesystem::path(::testing::TempDir()) / "vm_processes";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file("/bin/sleep", folder / "libjax_common.so",
                             std::filesystem::copy_options::overwrite_existing);
  const std::string program = folder / "libjax_common.so";
  const pid_t pid = fork();
  if (pid == 0) {
    execl(program.c_str(), "sleep", "60", nullptr);
    _exit(127);
  }
  std::optional<VmProcess> seen;
  for (int i = 0; i < 100 && !seen; ++i) {
    usleep(20'000);
    const auto all = VmProcesses().Look(*IdentifyProcess(getpid()));
    const auto found = std::ranges::find(all, pid, [](const auto& each) { return each.host.pid; });
    if (found != all.end()) seen = *found;
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->framework, "jax");
  EXPECT_EQ(seen->reach, Reach::kNone);
  EXPECT_EQ(seen->command, "sleep 60");
  EXPECT_LT(seen->seconds, 60);
}

}  // namespace
}  // namespace torus::worker
