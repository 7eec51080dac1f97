#include "slice/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

namespace torus::slice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Counters : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/torus-counters-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<CountersPage> Make() {
    return CountersPage::Make(
        folder_,
        {.accelerator_type = "v2-8", .devices_per_chip = 2, .devices = {{0, 0}, {0, 1}, {1, 0}}});
  }
  static std::string Bytes(const std::string& path) {
    std::ifstream file(path);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  std::string folder_;
};

TEST_F(Counters, OthersReadWhatIsWritten) {
  const auto page = Make();
  page->header().compiles = 3;
  auto& device = page->device(2);
  device.hbm_total = 100;
  device.hbm_in_use = 7;
  device.runs = 5;
  device.busy = 1000;
  device.timing[4] = 5;
  device.last_run = 400;
  const auto read = ParsePage(Bytes(page->path()), 900);
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->accelerator_type, "v2-8");
  EXPECT_THAT(read->command, HasSubstr("slice_test"));
  EXPECT_EQ(read->devices_per_chip, 2);
  EXPECT_EQ(read->compiles, 3);
  ASSERT_EQ(read->devices.size(), 3u);
  EXPECT_EQ(read->devices[1].core, 1);
  EXPECT_EQ(read->devices[2].chip, 1);
  EXPECT_EQ(read->devices[2].hbm_in_use, 7);
  EXPECT_EQ(read->devices[2].busy, 1000);
  EXPECT_EQ(read->devices[2].idle, 500);
  EXPECT_EQ(read->devices[2].timing[4], 5);
}

TEST_F(Counters, ARunThatHasNotEndedCountsUntilNow) {
  const auto page = Make();
  page->device(0).busy = 100;
  page->device(0).busy_since = 1000;
  page->device(0).running = 1;
  const auto read = ParsePage(Bytes(page->path()), 1500);
  EXPECT_EQ(read->devices[0].busy, 600);
  EXPECT_EQ(read->devices[0].idle, 0);
}

TEST_F(Counters, ThePageIsNamedByItsProcessAndGoesWithIt) {
  auto page = Make();
  const auto name = ParsePageName(fs::path(page->path()).filename().string());
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->pid, getpid());
  EXPECT_EQ(name->start_ticks, StartTicks(Bytes("/proc/self/stat")));
  const auto another = Make();
  EXPECT_NE(page->path(), another->path()) << "a client has one of its own";
  const std::string path = page->path();
  page.reset();
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Counters, WhatADeadProcessLeftIsRemoved) {
  const pid_t child = fork();
  if (child == 0) {
    Make().release();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  // A living process that has the number of one that is gone
  std::ofstream(fmt::format("{}/{}-{}-1", folder_, getpid(), 1)) << "x";
  std::ofstream(folder_ + "/README") << "not ours";
  EXPECT_EQ(Files(), 3u);
  const auto page = Make();
  EXPECT_EQ(Files(), 2u);
  EXPECT_TRUE(fs::exists(page->path()));
}

TEST_F(Counters, AForkedChildLeavesItsParentsPage) {
  auto page = Make();
  if (const pid_t child = fork(); child == 0) {
    page.reset();
    _exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
  EXPECT_TRUE(fs::exists(page->path()));
}

TEST_F(Counters, WithoutAFolderTheyAreCountedAllTheSame) {
  const auto page = CountersPage::Make("/none/such", {.devices = {{0, 0}}});
  EXPECT_EQ(page->path(), "");
  page->device(0).runs += 1;
  EXPECT_EQ(page->device(0).runs, 1);
}

TEST_F(Counters, NoReaderSeesHalfOfANumber) {
  const auto page = Make();
  std::atomic<bool> over = false;
  std::thread writer([&] {
    // Every byte is the same: half of one and half of another would show.
    for (uint64_t n = 0; !over; n = (n + 1) % 256)
      for (auto* counter : {&page->device(0).runs, &page->device(2).busy})
        counter->store(static_cast<int64_t>(n * 0x0101010101010101u), std::memory_order_relaxed);
  });
  for (int i = 0; i < 3'000; ++i) {
    const auto read = ParsePage(Bytes(page->path()), 1);
    ASSERT_TRUE(read.has_value());
    for (const int64_t seen : {read->devices[0].runs, read->devices[2].busy})
      ASSERT_EQ(static_cast<uint64_t>(seen) % 0x0101010101010101u, 0u);
  }
  over = true;
  writer.join();
}

TEST_F(Counters, WhatIsNoPageIsRefused) {
  const auto page = Make();
  const std::string whole = Bytes(page->path());
  for (size_t size = 0; size < whole.size(); size += 8)
    EXPECT_FALSE(ParsePage(whole.substr(0, size), 1)) << size;
  std::string other = whole;
  other[offsetof(PageHeader, version)] = 2;
  EXPECT_THAT(std::string(ParsePage(other, 1).error().message()), HasSubstr("version 2"));
  // Of a newer library, with more fields
  const auto grown = [&] {
    const auto* header = reinterpret_cast<const PageHeader*>(whole.data());
    std::string text = whole;
    const uint32_t bytes = header->header_bytes + 64;
    std::memcpy(text.data() + offsetof(PageHeader, header_bytes), &bytes, sizeof(bytes));
    text.insert(header->header_bytes, 64, '\xff');
    return text;
  };
  EXPECT_EQ(ParsePage(grown(), 1)->devices[1].core, 1);

  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (int changes = 0; changes < 8; ++changes)
      text[8 + random() % (i % 2 ? 64 : text.size() - 8)] = static_cast<char>(random());
    if (const auto read = ParsePage(text, 1)) {
      EXPECT_LE(read->devices.size(), whole.size());
    }
  }
}

TEST(PageName, IsThreeNumbers) {
  EXPECT_EQ(ParsePageName("12-345-6")->start_ticks, 345u);
  for (const char* bad : {"", "-", "--", "12", "12-345", "12-345-", "-1-2-3", "a-1-2", "1-2-3-4",
                          "0-1-2", "99999999999999999999-1-2", "12-345-6.tmp"})
    EXPECT_FALSE(ParsePageName(bad)) << bad;
}

TEST(StartTicks, IsField22) {
  EXPECT_EQ(StartTicks("7 (a) b) c) S 1 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 9 9"), 4711u);
  EXPECT_FALSE(StartTicks("7 (dead) Z 1 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 9 9"));
  for (const char* bad : {"", "7 (a", "7 (a) S 1 2 3", "7 (a) S"}) EXPECT_FALSE(StartTicks(bad));
}

}  // namespace
}  // namespace torus::slice
