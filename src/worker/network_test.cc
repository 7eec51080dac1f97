#include "worker/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace torus::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const VmPaths kVm("/data/vms/u/0", "u", 0);
const NetworkPlan kPlan{.address = "10.128.0.9", .mtu = 1400, .sandbox_pid = 42};

TEST(VmPaths, NamesFitAndDiffer) {
  EXPECT_LE(kVm.link().size(), 15u);
  EXPECT_NE(kVm.link(), VmPaths("", "u", 1).link());
  EXPECT_NE(kVm.link(), VmPaths("", "v", 0).link());
  EXPECT_EQ(kVm.link(), VmPaths("/elsewhere", "u", 0).link());
}

TEST(Network, MakesAddressesAsComputeEngineDoes) {
  EXPECT_EQ(MacAddress("10.128.0.9"), "42:01:0a:80:00:09");
}

TEST(Network, LinksPointToPoint) {
  EXPECT_THAT(HostLinkCommands(kVm, kPlan),
              HasSubstr(fmt::format("route add 10.128.0.9/32 dev {}", kVm.link())));
  EXPECT_THAT(HostLinkCommands(kVm, kPlan), HasSubstr("mtu 1400 type veth peer name eth0"));
  EXPECT_THAT(VmLinkCommands(kPlan), HasSubstr("addr add 169.254.169.254/32 dev lo"));
  EXPECT_THAT(VmLinkCommands(kPlan), HasSubstr("default via 10.128.0.1"));
}

TEST(Network, AHostThatBeginsToForwardIsNoRouterBetweenItsOwnLinks) {
  const std::string rules = RouterRules({"eth0", "wlan0"});
  EXPECT_THAT(rules, HasSubstr("oifname \"tv*\" accept\n"));
  EXPECT_THAT(rules, HasSubstr("iifname { \"eth0\", \"wlan0\" } drop"));
  EXPECT_EQ(RouterRules({}), "");
}

TEST(Network, RulesNameOnlyThisVm) {
  const std::string rules = HostRules(kVm, kPlan);
  EXPECT_THAT(rules, HasSubstr("ip saddr != 10.128.0.9 drop"));
  EXPECT_THAT(rules, HasSubstr("ip daddr { 10.128.0.0/16, 169.254.0.0/16 } drop"));
  EXPECT_THAT(rules, HasSubstr(fmt::format("iifname \"{}\" drop", kVm.link())));
  EXPECT_THAT(rules, HasSubstr(fmt::format("oifname \"{}\" drop", kVm.link())));
  EXPECT_THAT(rules, HasSubstr("masquerade"));
  NetworkPlan slice = kPlan;
  slice.peers = {"10.128.0.10", "10.128.0.11"};
  EXPECT_THAT(rules, Not(HasSubstr("10.128.0.10")));
  EXPECT_THAT(HostRules(kVm, slice), HasSubstr("ip daddr { 10.128.0.10, 10.128.0.11 } accept"));
}

TEST(Network, AnAddressCannotBeARule) {
  EXPECT_TRUE(CheckPlan(kPlan).ok());
  EXPECT_EQ(CheckPlan({.address = "10.0.0.1 accept"}).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckPlan({.address = "10.0.0.1", .peers = {"fe80::1"}}).code(),
            Code::kInvalidArgument);
}

TEST(Network, LoopbackResolversGiveWayToTheirUpstream) {
  EXPECT_EQ(UsableResolvers("# x\nnameserver 10.1.1.1\nsearch lan\n", "nameserver 8.8.4.4\n").file,
            "nameserver 10.1.1.1\nsearch lan\n");
  const Resolvers upstream = UsableResolvers("nameserver 127.0.0.53\noptions edns0\n",
                                             "nameserver fe80::1\nnameserver 10.2.2.2\n");
  EXPECT_EQ(upstream.file, "nameserver 10.2.2.2\n");
  EXPECT_EQ(upstream.addresses, std::vector<std::string>{"10.2.2.2"});
}

TEST(Network, ALinkLocalResolverIsAskedThroughTheGateway) {
  const Resolvers cloud = UsableResolvers("nameserver 169.254.169.254\n", "");
  EXPECT_EQ(cloud.file, "nameserver 10.128.0.1\n");
  NetworkPlan plan = kPlan;
  EXPECT_THAT(HostRules(kVm, plan), Not(HasSubstr("dnat")));
  plan.resolvers = cloud.addresses;
  EXPECT_THAT(HostRules(kVm, plan), HasSubstr("th dport 53 dnat ip to 169.254.169.254"));
  plan.resolvers = {"10.2.2.2"};
  EXPECT_THAT(HostRules(kVm, plan), HasSubstr("ip daddr { 10.2.2.2 } meta l4proto { tcp, udp } "
                                              "th dport 53 accept"));
}

TEST(Network, TellsListenersFromConnections) {
  const auto has = [](const std::string& rows) {
    std::istringstream text("  sl  local_address rem_address   st tx_queue rx_queue\n" + rows);
    return HasListener(text, 8470);
  };
  EXPECT_FALSE(has(""));
  EXPECT_TRUE(
      has("   0: 00000000:0016 00000000:0000 0A 0:0\n   1: 0100007F:2116 00000000:0000 0A"));
  EXPECT_TRUE(
      has("   0: 00000000000000000000000000000000:2116 "
          "00000000000000000000000000000000:0000 0A 0:0\n"));
  EXPECT_FALSE(has("   0: 00000000:0016 00000000:2116 0A 0:0\n"));
  EXPECT_FALSE(has("   0: 0100007F:2116 0100007F:C001 01 0:0\n"));
  EXPECT_FALSE(has("nonsense\n\n"));
}

}  // namespace
}  // namespace torus::worker
