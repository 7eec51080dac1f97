#include "worker/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace torus::worker {
namespace {

bool IsIpv4(const std::string& text) {
  in_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

Status Run(std::vector<std::string> argv, std::string input) {
  const auto result = RunChecked(argv, {.input = std::move(input)});
  return result ? Status() : result.error();
}

// A setting of the host's kernel, written only if it differs.
Status Set(const std::string& path, const std::string& value) {
  const auto present = ReadFile(path);
  if (present && present->starts_with(value)) return {};
  const Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "open", path);
  if (write(fd.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size())) return {};
  return ErrnoStatus(errno, "write", path);
}

bool IsLoopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1" || address == "0.0.0.0";
}

constexpr char kRouterTable[] = "torus_router";
constexpr char kForwarding[] = "/proc/sys/net/ipv4/ip_forward";

// Of a VM through the host: the kernel's table of them is the host's and all VMs' together.
constexpr int kMostConnections = 8192;

bool IsLinkLocal(std::string_view address) { return address.starts_with("169.254."); }

// What lets the VM ask the host's resolvers: rules for the chains of HostRules.
struct NameRules {
  std::string prerouting, input, forward;
};

NameRules RulesForNames(const std::string& link, const std::vector<std::string>& resolvers) {
  NameRules rules;
  if (resolvers.empty()) return rules;
  const std::string all = fmt::format(
      "iifname \"{}\" ip daddr {{ {} }} meta l4proto {{ tcp, udp }} "
      "th dport 53 accept",
      link, fmt::join(resolvers, ", "));
  rules.input = rules.forward = fmt::format("    {}\n", all);
  const auto link_local = std::ranges::find_if(resolvers, IsLinkLocal);
  if (link_local == resolvers.end()) return rules;
  rules.prerouting = fmt::format(
      "  chain prerouting {{\n"
      "    type nat hook prerouting priority -100; policy accept;\n"
      "    iifname \"{}\" ip daddr {} meta l4proto {{ tcp, udp }} th dport 53 dnat ip to {}\n"
      "  }}\n",
      link, kGateway, *link_local);
  return rules;
}

// The links of this host but VMs' and loopback.
std::vector<std::string> OtherLinks() {
  std::vector<std::string> links;
  struct if_nameindex* all = if_nameindex();
  for (auto* link = all; link != nullptr && link->if_index != 0; ++link)
    if (const std::string_view name = link->if_name; name != "lo" && !name.starts_with("tv"))
      links.emplace_back(name);
  if_freenameindex(all);
  return links;
}

// Whether the kernel says that there is no such inet table of nft's. By netlink, which costs
// nothing: running nft for every VM every few seconds would.
bool LacksTable(const std::string& name) {
  const Fd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  struct {
    nlmsghdr header;
    nfgenmsg family;
    nlattr attribute;
    char name[64];
  } message{};
  if (!netlink || name.size() >= sizeof(message.name)) return false;
  name.copy(message.name, sizeof(message.name) - 1);
  message.attribute.nla_type = NFTA_TABLE_NAME;
  message.attribute.nla_len = static_cast<uint16_t>(NLA_HDRLEN + name.size() + 1);
  message.family.nfgen_family = NFPROTO_INET;
  message.header.nlmsg_type = (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETTABLE;
  message.header.nlmsg_flags = NLM_F_REQUEST;
  message.header.nlmsg_len =
      static_cast<uint32_t>(NLMSG_LENGTH(sizeof(nfgenmsg)) + NLA_ALIGN(message.attribute.nla_len));
  if (send(netlink.get(), &message, message.header.nlmsg_len, 0) < 0) return false;
  alignas(nlmsghdr) char buffer[8192];
  const ssize_t size = recv(netlink.get(), buffer, sizeof(buffer), 0);
  const auto* answer = reinterpret_cast<const nlmsghdr*>(buffer);
  if (size < 0 || !NLMSG_OK(answer, static_cast<size_t>(size)) ||
      answer->nlmsg_type != NLMSG_ERROR || answer->nlmsg_len < NLMSG_LENGTH(sizeof(nlmsgerr)))
    return false;
  return static_cast<const nlmsgerr*>(NLMSG_DATA(answer))->error == -ENOENT;
}

// Has the host forward, for its VMs and for nobody else.
Status Forward() {
  const auto present = ReadFile(kForwarding);
  if (present && present->starts_with('1')) return {};
  TORUS_RETURN_IF_ERROR(Run({"nft", "-f", "-"}, RouterRules(OtherLinks())));
  FaultPoint("worker.router_rules");
  return Set(kForwarding, "1");
}

// The router's rules are put back where this worker has seen them stand: whether the host forwarded
// before its VMs did cannot be told later.
Status KeepRouterRules() {
  static std::atomic<bool> stood = false;
  if (!LacksTable(kRouterTable)) {
    stood = true;
    return {};
  }
  return stood ? Run({"nft", "-f", "-"}, RouterRules(OtherLinks())) : Status();
}

}  // namespace

Status CheckPlan(const NetworkPlan& plan) {
  if (!IsIpv4(plan.address)) return InvalidArgument("\"{}\" is not an IPv4 address", plan.address);
  for (const auto* addresses : {&plan.peers, &plan.resolvers}) {
    for (const std::string& address : *addresses)
      if (!IsIpv4(address)) return InvalidArgument("\"{}\" is not an IPv4 address", address);
  }
  return {};
}

std::string MacAddress(std::string_view address) {
  in_addr parsed{};
  inet_pton(AF_INET, std::string(address).c_str(), &parsed);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&parsed);
  return fmt::format("42:01:{:02x}", fmt::join(bytes, bytes + 4, ":"));
}

std::string HostLinkCommands(const VmPaths& vm, const NetworkPlan& plan) {
  return fmt::format(
      "link add {link} mtu {mtu} type veth peer name eth0 mtu {mtu} address {mac} netns {pid}\n"
      "addr add {gateway}/32 dev {link}\n"
      "link set {link} up\n"
      "route add {address}/32 dev {link} proto static\n",
      fmt::arg("link", vm.link()), fmt::arg("mtu", plan.mtu), fmt::arg("pid", plan.sandbox_pid),
      fmt::arg("mac", MacAddress(plan.address)), fmt::arg("gateway", kGateway),
      fmt::arg("address", plan.address));
}

std::string VmLinkCommands(const NetworkPlan& plan) {
  return fmt::format(
      "link set lo up\n"
      "addr add {metadata}/32 dev lo\n"
      "addr add {address}/32 dev eth0\n"
      "link set eth0 up\n"
      "route add {gateway}/32 dev eth0\n"
      "route add default via {gateway} dev eth0\n",
      fmt::arg("metadata", kMetadataAddress), fmt::arg("address", plan.address),
      fmt::arg("gateway", kGateway));
}

std::string HostRules(const VmPaths& vm, const NetworkPlan& plan) {
  const std::string peers = plan.peers.empty()
                                ? ""
                                : fmt::format("    iifname \"{}\" ip daddr {{ {} }} accept\n",
                                              vm.link(), fmt::join(plan.peers, ", "));
  const std::string from_peers = plan.peers.empty()
                                     ? ""
                                     : fmt::format("    oifname \"{}\" ip saddr {{ {} }} accept\n",
                                                   vm.link(), fmt::join(plan.peers, ", "));
  const NameRules names = RulesForNames(vm.link(), plan.resolvers);
  // Removed and made anew in one transaction: a table of before may guard another address.
  return fmt::format(
      "add table inet {table}\n"
      "delete table inet {table}\n"
      "table inet {table} {{\n"
      "{names_prerouting}"
      "  chain input {{\n"
      "    type filter hook input priority -10; policy accept;\n"
      "    iifname \"{link}\" ip saddr {address} ct state established,related ct direction reply "
      "accept\n"
      "    iifname \"{link}\" ct count over {most} drop\n"
      "{names_input}"
      "    iifname \"{link}\" drop\n"
      "  }}\n"
      "  chain forward {{\n"
      "    type filter hook forward priority -10; policy accept;\n"
      "    iifname \"{link}\" meta nfproto != ipv4 drop\n"
      "    iifname \"{link}\" ip saddr != {address} drop\n"
      "    iifname \"{link}\" ct state established,related accept\n"
      "    iifname \"{link}\" ct count over {most} drop\n"
      "{peers}{names_forward}"
      "    iifname \"{link}\" ip daddr {{ {range}, 169.254.0.0/16 }} drop\n"
      "    oifname \"{link}\" ct state established,related accept\n"
      "{from_peers}"
      "    oifname \"{link}\" drop\n"
      "  }}\n"
      "  chain postrouting {{\n"
      "    type nat hook postrouting priority 100; policy accept;\n"
      "    ip saddr {address} ip daddr != {range} masquerade\n"
      "  }}\n"
      "}}\n",
      fmt::arg("table", vm.table()), fmt::arg("link", vm.link()), fmt::arg("address", plan.address),
      fmt::arg("peers", peers), fmt::arg("from_peers", from_peers), fmt::arg("range", kVmRange),
      fmt::arg("most", kMostConnections), fmt::arg("names_prerouting", names.prerouting),
      fmt::arg("names_input", names.input), fmt::arg("names_forward", names.forward));
}

std::string RouterRules(const std::vector<std::string>& links) {
  if (links.empty()) return {};
  return fmt::format(
      "add table inet {table}\n"
      "delete table inet {table}\n"
      "table inet {table} {{\n"
      "  chain forward {{\n"
      "    type filter hook forward priority -10; policy accept;\n"
      "    oifname \"tv*\" accept\n"
      "    ct state established,related accept\n"
      "    ct status dnat accept\n"
      "    iifname {{ \"{links}\" }} drop\n"
      "  }}\n"
      "}}\n",
      fmt::arg("table", kRouterTable), fmt::arg("links", fmt::join(links, "\", \"")));
}

std::string VmRules() {
  return fmt::format(
      "table ip torus {{\n"
      "  chain output {{\n"
      "    type nat hook output priority -100; policy accept;\n"
      "    ip daddr {address} tcp dport 80 dnat to {address}:{port}\n"
      "  }}\n"
      "}}\n",
      fmt::arg("address", kMetadataAddress), fmt::arg("port", kMetadataPort));
}

std::string LeadPortRules(uint16_t from, uint16_t to) {
  return fmt::format(
      "add table ip torus_{from}\n"
      "delete table ip torus_{from}\n"
      "table ip torus_{from} {{\n"
      "  chain prerouting {{\n"
      "    type nat hook prerouting priority -100; policy accept;\n"
      "    tcp dport {from} redirect to :{to}\n"
      "  }}\n"
      "  chain output {{\n"
      "    type nat hook output priority -100; policy accept;\n"
      "    fib daddr type local tcp dport {from} redirect to :{to}\n"
      "  }}\n"
      "}}\n",
      fmt::arg("from", from), fmt::arg("to", to));
}

Status LeadPort(int64_t pid, uint16_t from, uint16_t to) {
  return InNetworkOf(pid, [&] { return Run({"nft", "-f", "-"}, LeadPortRules(from, to)); });
}

Status LeavePort(int64_t pid, uint16_t from) {
  return InNetworkOf(pid, [&] {
    return Run({"nft", "-f", "-"},
               fmt::format("add table ip torus_{0}\ndelete table ip torus_{0}\n", from));
  });
}

bool HasListener(std::istream& sockets, uint16_t port) {
  constexpr std::string_view kListening = "0A";
  const std::string suffix = fmt::format(":{:04X}", port);
  std::string line;
  std::getline(sockets, line);  // the columns' names
  while (std::getline(sockets, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state;
    words >> number >> local >> remote >> state;
    if (state != kListening) return false;  // the kernel lists those that listen first
    if (local.ends_with(suffix)) return true;
  }
  return false;
}

bool HasListener(int64_t pid, uint16_t port) {
  for (const char* family : {"tcp", "tcp6"}) {
    std::ifstream sockets(fmt::format("/proc/{}/net/{}", pid, family));
    if (HasListener(sockets, port)) return true;
  }
  return false;
}

Status InNetworkOf(int64_t pid, const std::function<Status()>& function) {
  Status status;
  std::thread([&] {
    const std::string path = fmt::format("/proc/{}/ns/net", pid);
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd || setns(fd.get(), CLONE_NEWNET) != 0) status = ErrnoStatus(errno, "enter", path);
    if (status.ok()) status = function();
  }).join();
  return status;
}

Status Plumb(const VmPaths& vm, const NetworkPlan& plan) {
  TORUS_RETURN_IF_ERROR(CheckPlan(plan));
  TORUS_RETURN_IF_ERROR(Run({"nft", "-f", "-"}, HostRules(vm, plan)));
  FaultPoint("worker.rules");
  if (const Status linked = Run({"ip", "-batch", "-"}, HostLinkCommands(vm, plan)); !linked.ok()) {
    const std::string other = LinkOf(plan.address);
    if (other.empty() || other == vm.link()) return linked;
    return FailedPrecondition(
        "the VM's address {} is in use on this machine, on the network link {}: most likely "
        "another Torus service here has a VM at it. Delete that VM, or stop using one of the two "
        "services on this machine, and try again (\"ip link delete {}\" frees the address if "
        "nobody owns it)",
        plan.address, other, other);
  }
  FaultPoint("worker.link");
  TORUS_RETURN_IF_ERROR(InNetworkOf(plan.sandbox_pid, [&]() -> Status {
    TORUS_RETURN_IF_ERROR(Run({"ip", "-batch", "-"}, VmLinkCommands(plan)));
    return Run({"nft", "-f", "-"}, VmRules());
  }));
  FaultPoint("worker.vm_network");
  return Forward();
}

Status KeepRules(const VmPaths& vm, const NetworkPlan& plan) {
  if (LacksTable(vm.table())) {
    spdlog::warn(
        "the VM's nft table {} is gone and is made anew: something has emptied the rules of this "
        "host's firewall (a restart of nftables.service does)",
        vm.table());
    TORUS_RETURN_IF_ERROR(Run({"nft", "-f", "-"}, HostRules(vm, plan)));
    TORUS_RETURN_IF_ERROR(Forward());
  }
  return KeepRouterRules();
}

std::string LinkOf(std::string_view address) {
  const auto routes =
      RunChecked({"ip", "-4", "-o", "route", "show", "exact", fmt::format("{}/32", address)});
  std::istringstream words(routes ? *routes : "");
  for (std::string word; words >> word;) {
    if (word != "dev") continue;
    words >> word;
    return word;
  }
  return {};
}

Status Unplumb(const VmPaths& vm) {
  const auto has_link = [&] { return if_nametoindex(vm.link().c_str()) != 0; };
  if (has_link()) {
    // Gone with its namespace a moment ago is as good as removed now.
    const Status removed = Run({"ip", "link", "delete", vm.link()}, "");
    if (!removed.ok() && has_link()) return removed;
  }
  FaultPoint("worker.unlink");
  return Run({"nft", "-f", "-"},
             fmt::format("add table inet {0}\ndelete table inet {0}\n", vm.table()));
}

Resolvers UsableResolvers(std::string_view resolv_conf, std::string_view upstream) {
  const auto read = [](std::string_view text) {
    Resolvers usable;
    std::istringstream stream{std::string(text)};
    for (std::string line; std::getline(stream, line);) {
      std::istringstream words(line);
      std::string name, value;
      words >> name >> value;
      if (name == "nameserver") {
        // The VM has no IPv6.
        if (IsLoopback(value) || !IsIpv4(value)) continue;
        usable.addresses.push_back(value);
        usable.file += fmt::format("nameserver {}\n", IsLinkLocal(value) ? kGateway : value);
      } else if (name == "search" || name == "options") {
        usable.file += line + "\n";
      }
    }
    return usable;
  };
  Resolvers usable = read(resolv_conf);
  return usable.addresses.empty() ? read(upstream) : usable;
}

}  // namespace torus::worker
