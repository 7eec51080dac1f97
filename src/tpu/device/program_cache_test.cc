// The files of the cache, whatever happens to them.
#include "tpu/device/program_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

namespace torus::tpu {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

using Entry = ProgramCache::Entry;

class ProgramCacheTest : public ::testing::Test {
 protected:
  ProgramCacheTest() {
    std::string made = "/tmp/torus-program-cache-XXXXXX";
    root_ = mkdtemp(made.data());
  }
  ~ProgramCacheTest() override { fs::remove_all(root_); }

  std::string folder() const { return root_ / "a/b"; }
  ProgramCacheOptions Options(int64_t limit = 1 << 20) const {
    return {.folder = folder(), .named = true, .limit_bytes = limit};
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(folder())) files.push_back(file);
    return files;
  }
  fs::path TheFile() const {
    const auto files = Files();
    EXPECT_THAT(files, SizeIs(1));
    return files.front();
  }

  fs::path root_;
};

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

mode_t ModeOf(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

// Runs `work` in a process of its own, which ends with 0 if nothing failed.
pid_t Start(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  work();
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

// What waitpid says of it in the end.
int Wait(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}
int InChild(const std::function<void()>& work) { return Wait(Start(work)); }

TEST_F(ProgramCacheTest, AnotherProcessFindsWhatOneInserted) {
  const std::string key("k\0ey", 4);
  const Entry entry{"print", std::string("bytes\0\xff", 7)};
  EXPECT_EQ(InChild([&] {
              ProgramCache cache(Options());
              EXPECT_EQ(cache.Find(key), std::nullopt);
              cache.Insert(key, entry);
            }),
            0);
  ProgramCache cache(Options());
  EXPECT_THAT(cache.Find(key), Optional(entry));
  EXPECT_EQ(cache.Find("other"), std::nullopt);
  cache.Insert(key, {"", "newer"});
  EXPECT_THAT(cache.Find(key), Optional(Entry{"", "newer"}));
  cache.Remove(key);
  EXPECT_EQ(cache.Find(key), std::nullopt);
}

TEST_F(ProgramCacheTest, IsTheUsersAlone) {
  const mode_t before = umask(0);
  ProgramCache(Options()).Insert("key", {"", "bytes"});
  umask(before);
  EXPECT_EQ(ModeOf(root_ / "a"), 0700u);
  EXPECT_EQ(ModeOf(folder()), 0700u);
  EXPECT_EQ(ModeOf(TheFile()), 0600u);
}

TEST_F(ProgramCacheTest, LooksAtTheWholeKey) {
  ProgramCache cache(Options());
  cache.Insert("one", {"", "1"});
  const auto one = TheFile();
  cache.Insert("two", {"", "2"});
  for (const auto& file : Files()) {
    if (file != one) fs::copy_file(one, file, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(cache.Find("two"), std::nullopt);  // as if their hashes were the same
  EXPECT_THAT(cache.Find("one"), Optional(Entry{"", "1"}));
}

TEST_F(ProgramCacheTest, RemovesWhatIsDamaged) {
  ProgramCache cache(Options());
  const Entry entry{"print", "bytes"};
  cache.Insert("key", entry);
  const auto path = TheFile();
  const auto whole = ReadAll(path);
  const auto expect_removed = [&](const std::string& bytes) {
    Write(path, bytes);
    EXPECT_EQ(cache.Find("key"), std::nullopt) << bytes.size();
    EXPECT_FALSE(fs::exists(path));
  };
  for (size_t size = 0; size < whole.size(); ++size) expect_removed(whole.substr(0, size));
  for (size_t at = 0; at < whole.size(); ++at) {
    auto bytes = whole;
    bytes[at] ^= 0x10;
    expect_removed(bytes);
  }
  expect_removed(whole + "x");
  expect_removed(std::string(whole.size(), '\0'));  // what a power cut leaves
  Write(path, whole);
  EXPECT_THAT(cache.Find("key"), Optional(entry));
}

TEST_F(ProgramCacheTest, LetsGoOfWhatWasUsedLongestAgo) {
  ProgramCache cache(Options(90'000));
  const Entry entry{"", std::string(8'000, 'x')};  // two pages
  for (int i = 0; i < 6; ++i) cache.Insert(std::to_string(i), entry);
  EXPECT_TRUE(cache.Find("0"));  // used now
  for (int i = 6; i < 12; ++i) {
    usleep(20'000);  // the clock of files is coarse
    cache.Insert(std::to_string(i), entry);
  }
  int64_t total = 0;
  for (const auto& file : Files()) total += static_cast<int64_t>(fs::file_size(file));
  EXPECT_LE(total, 90'000);
  EXPECT_TRUE(cache.Find("0"));
  EXPECT_FALSE(cache.Find("1"));
  EXPECT_TRUE(cache.Find("11"));
}

TEST_F(ProgramCacheTest, DoesNotKeepWhatIsTooLarge) {
  ProgramCache cache(Options(80'000));
  cache.Insert("key", {"", std::string(10'000, 'x')});
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ProgramCacheTest, AKilledWriterLeavesAllOrNothing) {
  const Entry entry{"print", std::string(100'000, 'x')};
  for (int i = 0; i < 30; ++i) {
    const pid_t writer = Start([&] {
      ProgramCache cache(Options());
      for (;;) cache.Insert("key", entry);
    });
    usleep(1000 * (i + 1));
    kill(writer, SIGKILL);
    ASSERT_TRUE(WIFSIGNALED(Wait(writer)));
    ProgramCache cache(Options());
    const auto found = cache.Find("key");
    EXPECT_TRUE(!found || *found == entry);
    cache.Insert("key", entry);
    EXPECT_THAT(cache.Find("key"), Optional(entry));
  }
}

TEST_F(ProgramCacheTest, RemovesWhatTheDeadLeftUnfinished) {
  fs::create_directories(folder());
  const fs::path old_file = folder() + "/0.unfinished", new_file = folder() + "/1.unfinished";
  Write(old_file, "half");
  Write(new_file, "half");
  fs::last_write_time(old_file, fs::file_time_type::clock::now() - std::chrono::hours(2));
  chmod(folder().c_str(), 0700);
  ProgramCache(Options(1000)).Insert("key", {"", "bytes"});
  EXPECT_FALSE(fs::exists(old_file));
  EXPECT_TRUE(fs::exists(new_file));
}

TEST_F(ProgramCacheTest, ManyProcessesAndThreadsAtOnce) {
  const auto bytes = [](int key) { return Entry{"", std::string(1000 + key, 'a' + key)}; };
  const auto use = [&bytes](ProgramCache& cache) {
    for (int i = 0; i < 200; ++i) {
      const int key = i * 7 % 10;
      const auto found = cache.Find(std::to_string(key));
      EXPECT_TRUE(!found || *found == bytes(key));
      cache.Insert(std::to_string(key), bytes(key));
    }
  };
  std::vector<pid_t> children;
  for (int c = 0; c < 3; ++c) {
    children.push_back(Start([&] {
      ProgramCache cache(Options(100'000));
      use(cache);
    }));
  }
  ProgramCache cache(Options(100'000));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back([&] { use(cache); });
  for (auto& thread : threads) thread.join();
  for (const pid_t child : children) EXPECT_EQ(Wait(child), 0);
  for (int key = 0; key < 10; ++key) {
    EXPECT_THAT(cache.Find(std::to_string(key)), Optional(bytes(key)));
  }
  EXPECT_THAT(Files(), SizeIs(10));
}

// What a cache in the folder says on stderr when it is used twice.
std::string Complaint(const ProgramCacheOptions& options) {
  testing::internal::CaptureStderr();
  ProgramCache cache(options);
  for (int i = 0; i < 2; ++i) {
    cache.Insert("key", {"", "bytes"});
    EXPECT_EQ(cache.Find("key"), std::nullopt);
  }
  EXPECT_FALSE(cache.on());
  return testing::internal::GetCapturedStderr();
}

TEST_F(ProgramCacheTest, IsOffWhereOthersCouldWrite) {
  fs::create_directories(folder());
  chmod(folder().c_str(), 0777);
  EXPECT_THAT(Complaint(Options()), HasSubstr("can be written by other users"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ProgramCacheTest, SaysOnceWhyANamedFolderCannotBeUsed) {
  Write(root_ / "a", "a file");
  EXPECT_EQ(Complaint(Options()), "libtpu.so keeps no compiled programs in TORUS_PROGRAM_CACHE: " +
                                      folder() + " cannot be made: Not a directory.\n");
  auto options = Options();
  options.named = false;
  EXPECT_EQ(Complaint(options), "");
  options = {.folder = "relative", .named = true};
  EXPECT_THAT(Complaint(options), HasSubstr("relative is no absolute path"));
  options = {.folder = "/proc/torus/programs", .named = true};
  EXPECT_THAT(Complaint(options), HasSubstr("/proc/torus cannot be made"));
}

TEST_F(ProgramCacheTest, FollowsOnlyItsUsersLinks) {
  fs::create_directories(root_ / "elsewhere");
  chmod((root_ / "elsewhere").c_str(), 0700);
  fs::create_directory_symlink(root_ / "elsewhere", root_ / "a");
  ProgramCache(Options()).Insert("key", {"", "bytes"});
  EXPECT_TRUE(fs::exists(root_ / "elsewhere/b"));
  if (lchown((root_ / "a").c_str(), 4321, 4321) != 0) GTEST_SKIP() << "needs root";
  EXPECT_THAT(Complaint(Options()), HasSubstr("/a is a link of another user"));
  fs::remove(root_ / "a");
  fs::create_directories(folder());
  ASSERT_EQ(lchown(folder().c_str(), 4321, 4321), 0);
  EXPECT_THAT(Complaint(Options()), HasSubstr("/a/b is another user's"));
}

// A write beyond the limit of files would end the process, which is not ours.
TEST_F(ProgramCacheTest, ALimitOnFilesDoesNotEndTheProcess) {
  EXPECT_EQ(InChild([&] {
              const rlimit limit{100, 100};
              setrlimit(RLIMIT_FSIZE, &limit);
              ProgramCache cache(Options());
              cache.Insert("key", {"", std::string(1000, 'x')});
              EXPECT_EQ(cache.Find("key"), std::nullopt);
            }),
            0);
  EXPECT_THAT(Files(), IsEmpty());
}

TEST(ProgramCacheSizeTest, IsReadAsOthersWriteIt) {
  const std::pair<const char*, int64_t> sizes[] = {{"0", 0},
                                                   {"1000000", 1'000'000},
                                                   {"7B", 7},
                                                   {"5k", 5'000},
                                                   {"500M", 500'000'000},
                                                   {"3GB", 3'000'000'000},
                                                   {"2Ki", 2048},
                                                   {"2GiB", int64_t{2} << 30},
                                                   {"1T", 1'000'000'000'000},
                                                   {"-1", std::numeric_limits<int64_t>::max()}};
  for (const auto& [text, bytes] : sizes) {
    const auto parsed = ParseCacheSize(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
  for (const char* text : {"", "much", "-2", "-1M", "5x", "5Gx", "5GiBs", "iB", "5 G", "1.5G", "+5",
                           "5Bi", "9223372036854775808", "9007199254740993Ki", "10000000T"}) {
    const auto parsed = ParseCacheSize(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
  }
}

TEST(ProgramCacheSizeTest, IsTheUsersOrTheDefault) {
  const auto options_with = [](const char* size) {
    setenv("TORUS_PROGRAM_CACHE", "/mine", 1);
    setenv("TORUS_PROGRAM_CACHE_MAX_SIZE", size, 1);
    const auto options = ProgramCacheOptions::FromEnvironment();
    unsetenv("TORUS_PROGRAM_CACHE_MAX_SIZE");
    unsetenv("TORUS_PROGRAM_CACHE");
    return options;
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(options_with("").limit_bytes, int64_t{2} << 30);
  EXPECT_EQ(options_with("5M").limit_bytes, 5'000'000);
  EXPECT_FALSE(ProgramCache(options_with("0")).on());
  EXPECT_TRUE(ProgramCache(options_with("-1")).Takes(size_t{1} << 40));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(options_with("5 M").limit_bytes, int64_t{2} << 30);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "libtpu.so keeps up to 2147483648 bytes of compiled programs: "
            "TORUS_PROGRAM_CACHE_MAX_SIZE is 5 M, which is no size: bytes, also as 500M or 2GiB, "
            "-1 for no limit, or 0 for no cache.\n");
}

TEST(ProgramCacheOptionsTest, NameTheFolder) {
  setenv("HOME", "/home/me", 1);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("TORUS_PROGRAM_CACHE");
  EXPECT_EQ(ProgramCacheOptions::FromEnvironment().folder, "/home/me/.cache/torus/programs");
  EXPECT_FALSE(ProgramCacheOptions::FromEnvironment().named);
  setenv("XDG_CACHE_HOME", "/var/caches", 1);
  EXPECT_EQ(ProgramCacheOptions::FromEnvironment().folder, "/var/caches/torus/programs");
  setenv("TORUS_PROGRAM_CACHE", "/mine", 1);
  EXPECT_EQ(ProgramCacheOptions::FromEnvironment().folder, "/mine");
  EXPECT_TRUE(ProgramCacheOptions::FromEnvironment().named);
  setenv("TORUS_PROGRAM_CACHE", "off", 1);
  EXPECT_EQ(ProgramCacheOptions::FromEnvironment().folder, "");
  EXPECT_FALSE(ProgramCache(ProgramCacheOptions::FromEnvironment()).on());
  unsetenv("TORUS_PROGRAM_CACHE");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(ProgramCacheOptions::FromEnvironment().folder, "");
}

}  // namespace
}  // namespace torus::tpu
