// Keys: in metadata, in known_hosts, and made on disk.
#include "cli/ssh_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <future>
#include <set>

#include "base/file.h"

namespace torus::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SshKeys, AreAddedOnce) {
  EXPECT_EQ(WithSshKey("", "ada", "ssh-rsa AAA"), "ada:ssh-rsa AAA ada");
  EXPECT_EQ(WithSshKey("bob:ssh-rsa BBB", "ada", "ssh-rsa AAA"),
            "bob:ssh-rsa BBB\nada:ssh-rsa AAA ada");
  for (const char* present :
       {"ada:ssh-rsa AAA", "ada:ssh-rsa AAA comment", "bob:ssh-rsa B\nada:ssh-rsa AAA ada\n"})
    EXPECT_EQ(WithSshKey(present, "ada", "ssh-rsa AAA"), std::nullopt) << present;
  for (const char* absent : {"bob:ssh-rsa AAA", "ada:ssh-rsa AAAB", "xada:ssh-rsa AAA"})
    EXPECT_NE(WithSshKey(absent, "ada", "ssh-rsa AAA"), std::nullopt) << absent;
}

TEST(HostKeys, ComeFromGuestAttributes) {
  const Json reply = Json::parse(R"({"guestAttributes": [
      {"queryValue": {"items": [
         {"namespace": "hostkeys", "key": "ssh-ed25519", "value": "A"},
         {"namespace": "hostkeys", "key": "ssh-rsa", "value": "B\nevil.example.com ssh-rsa C"},
         {"namespace": "other", "key": "x", "value": "y"}]}},
      {"queryValue": {"items": [{"namespace": "hostkeys", "key": "ssh-rsa", "value": "D"}]}}]})");
  const HostKeys keys = HostKeysFromGuestAttributes(reply, "42", {0, 1, 7});
  EXPECT_EQ(keys.size(), 2u);
  EXPECT_THAT(keys.at("tpu.42-0"), ElementsAre("ssh-ed25519 A"));
  EXPECT_THAT(keys.at("tpu.42-1"), ElementsAre("ssh-rsa D"));
  EXPECT_TRUE(HostKeysFromGuestAttributes(Json::object(), "42", {0}).empty());
}

TEST(HostKeys, ReplaceOnlyTheirOwnLines) {
  EXPECT_EQ(
      WithHostKeys("other ssh-rsa X\ntpu.42-0 ssh-rsa old\n", {{"tpu.42-0", {"ssh-rsa new"}}}),
      "other ssh-rsa X\ntpu.42-0 ssh-rsa new\n");
  EXPECT_EQ(WithHostKeys("no newline", {{"a", {"k 1", "k 2"}}}), "no newline\na k 1\na k 2\n");
  const std::string once = WithHostKeys("", {{"a", {"k"}}});
  EXPECT_EQ(WithHostKeys(once, {{"a", {"k"}}}), once);
}

class OnDisk : public ::testing::Test {
 protected:
  OnDisk() {
    char path[] = "/tmp/torus-ssh-XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~OnDisk() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(OnDisk, HostKeysAreWrittenPrivately) {
  const std::string path = folder_ + "/.ssh/known";
  ASSERT_TRUE(WriteHostKeys(path, {{"a", {"k 1"}}}).ok());
  ASSERT_TRUE(WriteHostKeys(path, {{"b", {"k 2"}}}).ok());
  EXPECT_EQ(*ReadFile(path), "a k 1\nb k 2\n");
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(OnDisk, AKeyIsMadeAndKept) {
  if (std::system("command -v ssh-keygen >/dev/null") != 0) GTEST_SKIP() << "needs ssh-keygen";
  const std::string path = folder_ + "/.ssh/key";
  const auto made = EnsureSshKey(path);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_THAT(*made, StartsWith("ssh-rsa "));
  EXPECT_EQ(*EnsureSshKey(path), *made);
  std::filesystem::remove(path + ".pub");
  EXPECT_EQ(*EnsureSshKey(path), *made);
  ASSERT_TRUE(WriteFile(path + ".pub", "garbage\n").ok());
  EXPECT_THAT(EnsureSshKey(path).error().message(), HasSubstr("does not hold a public SSH key"));
}

TEST_F(OnDisk, FirstLoginsAtOnceMakeOneKey) {
  if (std::system("command -v ssh-keygen >/dev/null") != 0) GTEST_SKIP() << "needs ssh-keygen";
  const std::string path = folder_ + "/.ssh/key";
  std::vector<std::future<Result<std::string>>> logins(4);
  for (auto& login : logins)
    login = std::async(std::launch::async, [&] { return EnsureSshKey(path); });
  std::set<std::string> keys;
  for (auto& login : logins) keys.insert(login.get().value_or("none"));
  EXPECT_THAT(keys, ElementsAre(StartsWith("ssh-rsa ")));
}

}  // namespace
}  // namespace torus::cli
