#include "base/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/process.h"

namespace torus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Subprocess, GivesInputAndCapturesOutput) {
  const std::string megabyte(1 << 17, 'x');
  const auto result = RunSubprocess({"cat"}, {.input = megabyte});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_EQ(result->output, megabyte);
}

TEST(Subprocess, TellsExitCodesAndSignals) {
  EXPECT_EQ(RunSubprocess({"sh", "-c", "exit 7"})->exit_code, 7);
  EXPECT_EQ(RunSubprocess({"sh", "-c", "kill -9 $$"})->exit_code, 137);
}

TEST(Subprocess, NamesAMissingProgram) {
  const auto result = RunSubprocess({"no-such-program"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kNotFound);
  EXPECT_THAT(result.error().message(), HasSubstr("no-such-program"));
}

TEST(Subprocess, EndsAtItsTimeWithItsWholeGroup) {
  const auto result =
      RunSubprocess({"sh", "-c", "sleep 60 & wait"}, {.timeout = std::chrono::milliseconds(100)});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kDeadlineExceeded);
}

TEST(Subprocess, AStopEndsItsWholeGroupAtOnce) {
  for (const char* script :
       {"sleep 60 & echo $!; wait", "sleep 60 & echo $!; exec >&- 2>&-; wait"}) {
    std::stop_source source;
    pid_t grandchild = 0;
    std::jthread stopper([&] {
      usleep(100'000);
      source.request_stop();
    });
    const auto begin = std::chrono::steady_clock::now();
    const auto result = RunSubprocess(
        {"sh", "-c", script},
        {.on_line = [&](std::string_view line) { grandchild = std::stoi(std::string(line)); },
         .stop = source.get_token()});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Code::kCancelled);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
    ASSERT_GT(grandchild, 0);
    EXPECT_FALSE(IdentifyProcess(grandchild));
    EXPECT_EQ(RunSubprocess({"true"}, {.stop = source.get_token()}).error().code(),
              Code::kCancelled);
  }
}

TEST(Subprocess, GivesLinesAsTheyCome) {
  std::vector<std::string> lines;
  ASSERT_TRUE(RunSubprocess({"printf", "one\ntwo\nhalf"},
                            {.on_line = [&](std::string_view line) { lines.emplace_back(line); }}));
  EXPECT_THAT(lines, ElementsAre("one", "two"));
}

TEST(Subprocess, ANeverReadInputDoesNoHarm) {
  EXPECT_EQ(RunSubprocess({"true"}, {.input = std::string(1 << 20, 'x')})->exit_code, 0);
}

TEST(Subprocess, CheckedTellsTheEndOfTheOutput) {
  const auto result = RunChecked({"sh", "-c", "echo no such link >&2; exit 2"});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message(), HasSubstr("exit code 2: no such link"));
}

TEST(Subprocess, AProgramThatMeetsAFullDiskIsTold) {
  const auto result = RunChecked({"sh", "-c", "/bin/echo hello > /dev/full"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::kResourceExhausted) << result.error().ToString();
}

// Whether the process is there, be it as a zombie.
bool Exists(pid_t pid) { return kill(pid, 0) == 0; }

TEST(Subprocess, OrphansAreReapedAndNoStatusIsStolen) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  // The shell ends before its child does, which so comes to this process.
  const auto made = RunSubprocess({"sh", "-c", "sleep 0.05 >/dev/null 2>&1 & echo $!"});
  ASSERT_TRUE(made);
  const pid_t orphan = std::stoi(made->output);
  EXPECT_TRUE(Exists(orphan));
  std::atomic<bool> done = false;
  std::thread reaper([&] {
    while (!done) ReapOrphans();
  });
  for (int i = 0; i < 100; ++i) ASSERT_EQ(RunSubprocess({"sh", "-c", "exit 7"})->exit_code, 7);
  for (int i = 0; i < 2000 && Exists(orphan); ++i) usleep(1000);
  EXPECT_FALSE(Exists(orphan));
  done = true;
  reaper.join();
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace torus
