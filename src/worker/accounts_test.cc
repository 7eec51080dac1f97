#include "worker/accounts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const WallTime kNow = *ParseTime("2026-06-01T12:00:00Z");

TEST(Accounts, ReadsNodeAndProjectKeys) {
  const Accounts accounts = ReadAccounts(
      {{"ssh-keys", "ann:ssh-rsa AAAA1 ann@home\r\n\nbob:ssh-ed25519 AAAA2\nann:ssh-rsa AAAA3"}},
      {{"ssh-keys", "ann:ssh-rsa AAAA3\neve:ecdsa-sha2-nistp256 AAAA4"}}, kNow);
  EXPECT_THAT(accounts.keys,
              ElementsAre(Pair("ann", ElementsAre("ssh-rsa AAAA1 ann@home", "ssh-rsa AAAA3")),
                          Pair("bob", ElementsAre("ssh-ed25519 AAAA2")),
                          Pair("eve", ElementsAre("ecdsa-sha2-nistp256 AAAA4"))));
  EXPECT_THAT(accounts.skipped, IsEmpty());
}

TEST(Accounts, TheNodeMayRefuseTheProjectsKeys) {
  const Metadata project = {{"ssh-keys", "eve:ssh-rsa AAAA4"}};
  EXPECT_THAT(ReadAccounts({{"block-project-ssh-keys", "TRUE"}}, project, kNow).keys, IsEmpty());
  EXPECT_THAT(ReadAccounts({{"block-project-ssh-keys", "false"}}, project, kNow).keys, SizeIs(1));
  EXPECT_THAT(ReadAccounts({{"sshKeys", "ann:ssh-rsa AAAA1"}}, project, kNow).keys,
              ElementsAre(Pair("ann", SizeIs(1))));
}

TEST(Accounts, AKeyEndsAtItsTime) {
  const std::string soon =
      R"(ann:ssh-rsa AAAA1 google-ssh {"userName":"a@x","expireOn":"2026-06-01T13:00:00+0000"})";
  const std::string past =
      R"(bob:ssh-rsa AAAA2 google-ssh {"userName":"b@x","expireOn":"2026-06-01T11:00:00+0000"})";
  const Accounts accounts = ReadAccounts({{"ssh-keys", soon + "\n" + past}}, {}, kNow);
  EXPECT_THAT(accounts.keys, ElementsAre(Pair("ann", SizeIs(1))));
  EXPECT_EQ(accounts.next_expiry, ParseTime("2026-06-01T13:00:00Z"));
  EXPECT_THAT(accounts.skipped, ElementsAre(HasSubstr("line 2: expired")));
  EXPECT_THAT(ReadAccounts({{"ssh-keys", soon}}, {}, *accounts.next_expiry).keys, IsEmpty());
}

TEST(Accounts, AKeyThatEndsInTheYear9999Counts) {
  for (const char* time :
       {"9999-12-31T23:59:59+0000", "2262-04-12T00:00:00Z", "2500-01-01T00:00:00Z"}) {
    const std::string key =
        fmt::format(R"(ann:ssh-rsa AAAA1 google-ssh {{"userName":"a","expireOn":"{}"}})", time);
    const Accounts accounts = ReadAccounts({{"ssh-keys", key}}, {}, WallNow());
    EXPECT_THAT(accounts.keys, SizeIs(1)) << time;
    ASSERT_TRUE(accounts.next_expiry) << time;
    EXPECT_GT(*accounts.next_expiry, WallNow()) << time;
  }
  EXPECT_GT(*ParseTime("9999-12-31T23:59:59Z"), *ParseTime("9999-12-31T23:59:58Z"));
  EXPECT_LT(*ParseTime("0001-01-01T00:00:00Z"), kNow);
}

TEST(Accounts, BadLinesAreLeftOutAndTold) {
  const Accounts accounts = ReadAccounts({{"ssh-keys",
                                           "no colon\n"
                                           "../etc:ssh-rsa AAAA1\n"
                                           "-rf:ssh-rsa AAAA1\n"
                                           "ann:not a key\n"
                                           "ann:ssh-rsa \x01 AAAA\n"
                                           "ann:ssh-rsa AAAA google-ssh {bad\n"
                                           "ann:ssh-rsa AAAA google-ssh {\"expireOn\":\"x\"}\n"
                                           "ann:ssh-rsa AAAA9\n"}},
                                         {}, kNow);
  EXPECT_THAT(accounts.keys, ElementsAre(Pair("ann", ElementsAre("ssh-rsa AAAA9"))));
  EXPECT_THAT(accounts.skipped, SizeIs(7));
  for (const std::string& line : accounts.skipped) EXPECT_EQ(line.find("AAAA"), std::string::npos);
}

TEST(Accounts, KnowsUserNames) {
  for (const char* name : {"ann", "a.b-c_d9", "_x", "Ann"}) EXPECT_TRUE(IsUserName(name)) << name;
  for (const char* name : {"", ".", "..", "-a", "9a", "a b", "a/b", "a:b", "a\n"})
    EXPECT_FALSE(IsUserName(name)) << name;
  EXPECT_FALSE(IsUserName(std::string(33, 'a')));
}

TEST(Accounts, ReadsTimes) {
  EXPECT_EQ(ParseTime("2026-06-01T14:00:00+02:00"), kNow);
  EXPECT_EQ(ParseTime("2026-06-01T14:00:00.123+0200"), kNow);
  EXPECT_FALSE(ParseTime("2026-06-01"));
  EXPECT_FALSE(ParseTime("2026-06-01T14:00:00"));
  EXPECT_FALSE(ParseTime("2026-06-01T14:00:00+02x"));
}

}  // namespace
}  // namespace torus::worker
