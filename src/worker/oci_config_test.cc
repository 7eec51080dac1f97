#include "worker/oci_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace torus::worker {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

SandboxConfig Example() {
  return {.host_name = "t1v-n-1-w-0",
          .root = "/media/root",
          .share = "/media/share",
          .tpu = "/media/tpu",
          .cgroup = "torus-1",
          .uid_base = 200000,
          .user_namespace = "/proc/1/fd/7",
          .limits = ResolveLimits({.memory = 10ll << 30}, 0, 0, 0, 0)};
}

TEST(OciConfig, EveryNamespaceIsTheVmsOwn) {
  std::set<std::string> types;
  const Json config = OciConfig(Example());
  for (const Json& space : config["linux"]["namespaces"]) {
    types.insert(space["type"]);
    EXPECT_EQ(space.value("path", ""), space["type"] == "user" ? "/proc/1/fd/7" : "");
  }
  EXPECT_EQ(types,
            (std::set<std::string>{"cgroup", "ipc", "mount", "network", "pid", "user", "uts"}));
  EXPECT_EQ(config["linux"]["uidMappings"][0]["hostID"], 200000);
  EXPECT_EQ(config["linux"]["gidMappings"][0]["size"], 65536);
}

TEST(OciConfig, HasNoCapabilityThatReachesTheHost) {
  const auto names =
      OciConfig(Example())["process"]["capabilities"]["bounding"].get<std::vector<std::string>>();
  for (const char* bad : {"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_PTRACE",
                          "CAP_SYS_MODULE", "CAP_SYS_TIME", "CAP_MKNOD", "CAP_BPF"})
    EXPECT_THAT(names, Not(Contains(bad)));
}

TEST(OciConfig, BindsFoldersOfItsOwnReadOnlyAndNothingElse) {
  int binds = 0;
  const Json config = OciConfig(Example());
  for (const Json& mount : config["mounts"]) {
    if (mount["type"] != "bind") continue;
    ++binds;
    EXPECT_THAT(mount["source"].get<std::string>(), StartsWith("/media/"));
    EXPECT_THAT(mount["options"].get<std::vector<std::string>>(),
                AllOf(Contains("ro"), Contains("nosuid"), Contains("nodev")));
  }
  EXPECT_EQ(binds, 3);
}

TEST(OciConfig, ShowsItsOwnPciDevicesWhateverTheHostHas) {
  SandboxConfig config = Example();
  const auto where = [&] {
    std::map<std::string, std::string> binds;
    const Json json = OciConfig(config);
    for (const Json& mount : json["mounts"]) binds[mount["source"]] = mount["destination"];
    return binds;
  };
  EXPECT_EQ(where()["/media/share/bus/pci/devices"], "/sys/bus/pci/devices");
  config.has_pci = false;
  EXPECT_EQ(where()["/media/share/bus"], "/sys/bus");
}

TEST(OciConfig, LimitsFollowTheHostUnlessOrdered) {
  const HostSize host{.memory = 1000, .pid_max = 4'000'000, .open_files_max = 1024};
  EXPECT_EQ(ResolveLimits(host, 0, 0, 0, 0), (Limits{800, 0, 16384, 1024, 100ll << 30}));
  EXPECT_EQ(ResolveLimits(host, 5, 1500, 7, 9), (Limits{5, 1500, 7, 1024, 9}));
  SandboxConfig config = Example();
  config.limits.cpu_millicores = 1500;
  EXPECT_EQ(OciConfig(config)["linux"]["resources"]["cpu"]["quota"], 150000);
  EXPECT_EQ(OciConfig(Example())["linux"]["resources"]["cpu"].contains("quota"), false);
}

TEST(OciConfig, RefusesWhatTheFilterDoesNotName) {
  const Json filter = OciConfig(Example())["linux"]["seccomp"];
  EXPECT_EQ(filter["defaultAction"], "SCMP_ACT_ERRNO");
  std::set<std::string> named;
  for (const Json& rule : filter["syscalls"]) {
    ASSERT_TRUE(rule["names"].is_array()) << rule;
    for (const Json& name : rule["names"]) named.insert(name);
    // runc wants a list even of one.
    ASSERT_TRUE(rule.value("args", Json::array()).is_array()) << rule;
  }
  for (const char* bad : {"mount", "unshare", "setns", "bpf", "keyctl", "add_key", "io_uring_setup",
                          "kexec_load", "init_module", "open_by_handle_at", "perf_event_open",
                          "userfaultfd", "pivot_root", "move_mount"})
    EXPECT_FALSE(named.contains(bad)) << bad;
  for (const char* good : {"openat", "execve", "clone", "futex", "rseq", "memfd_create"})
    EXPECT_TRUE(named.contains(good)) << good;
}

}  // namespace
}  // namespace torus::worker
