#include "worker/guest_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace torus::worker {
namespace {

using ::testing::HasSubstr;

VmSpec Example() {
  VmSpec vm;
  vm.set_project("p");
  vm.set_zone("z");
  vm.set_host_name("h");
  vm.set_address("10.128.0.9");
  vm.set_accelerator_type("v2-8");
  return vm;
}

TEST(GuestFiles, NameTheVmItsMetadataServerAndItsUsers) {
  const auto files = GuestFiles(Example(), {.keys = {{"ann", {"ssh-rsa AAAA1", "ssh-rsa AAAA2"}}}},
                                1000, "nameserver 10.1.1.1\n");
  EXPECT_THAT(files.at("hosts"), HasSubstr("10.128.0.9 h.z.c.p.internal h\n"));
  EXPECT_THAT(files.at("hosts"), HasSubstr("169.254.169.254 metadata.google.internal metadata\n"));
  EXPECT_EQ(files.at("users"), "ann\n");
  EXPECT_EQ(files.at("keys/ann"), "ssh-rsa AAAA1\nssh-rsa AAAA2\n");
  EXPECT_EQ(files.at("resolv.conf"), "nameserver 10.1.1.1\n");
  EXPECT_THAT(files.at("slice"), HasSubstr("v2-8"));
  EXPECT_THAT(files.at("devices"), HasSubstr("\naccel3\n"));
  EXPECT_FALSE(files.contains("startup-script"));
}

TEST(GuestFiles, TheNodesScriptWinsOverTheProjects) {
  VmSpec vm = Example();
  (*vm.mutable_project_metadata())["startup-script"] = "project";
  EXPECT_EQ(GuestFiles(vm, {}, 0, "").at("startup-script"), "project");
  (*vm.mutable_metadata())["startup-script"] = "node";
  EXPECT_EQ(GuestFiles(vm, {}, 0, "").at("startup-script"), "node");
}

TEST(GuestFiles, SshdsConfigurationIsTheImages) {
  char name[] = "/tmp/torus-guest-test-XXXXXX";
  const std::string image = mkdtemp(name);
  EXPECT_EQ(ImageSshdConfig(image).error().code(), Code::kNotFound);
  ASSERT_TRUE(MakeFolders(image + "/etc/ssh/sshd_config.d").ok());
  ASSERT_TRUE(WriteFile(image + "/etc/ssh/sshd_config",
                        "# Debian\nInclude /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n")
                  .ok());
  ASSERT_TRUE(WriteFile(image + "/etc/ssh/sshd_config.d/20-b.conf", "B yes\n").ok());
  ASSERT_TRUE(WriteFile(image + "/etc/ssh/sshd_config.d/10-a.conf", "A yes").ok());
  ASSERT_TRUE(WriteFile(image + "/etc/ssh/sshd_config.d/old", "C yes\n").ok());
  EXPECT_THAT(*ImageSshdConfig(image), testing::EndsWith("# Debian\nA yes\nB yes\n\nUsePAM yes\n"));
  EXPECT_TRUE(RemoveTree(image).ok());
}

TEST(GuestFiles, TheFolderHoldsExactlyTheFiles) {
  char name[] = "/tmp/torus-guest-test-XXXXXX";
  const std::string folder = mkdtemp(name);
  const uint32_t self = getuid();
  ASSERT_TRUE(MakeFolders(folder + "/hostkeys").ok());
  ASSERT_TRUE(WriteFile(folder + "/hostkeys/key", "k").ok());
  ASSERT_TRUE(WriteGuestFiles(
                  folder, {{"keys/ann", "1"}, {"startup-script", "x"}, {"users", "ann\n"}}, self)
                  .ok());
  ASSERT_TRUE(WriteGuestFiles(folder, {{"keys/bob", "2"}, {"users", "bob\n"}}, self).ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/keys/ann")) << "a removed key is gone";
  EXPECT_FALSE(std::filesystem::exists(folder + "/startup-script"));
  EXPECT_EQ(*ReadFile(folder + "/keys/bob"), "2");
  EXPECT_EQ(*ReadFile(folder + "/users"), "bob\n");
  EXPECT_EQ(*ReadFile(folder + "/hostkeys/key"), "k");
  EXPECT_TRUE(RemoveTree(folder).ok());
}

}  // namespace
}  // namespace torus::worker
