#include "service/gateway/peer_guard.h"

#include <arpa/inet.h>
#include <grp.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>
#include <vector>

#include "base/fd.h"
#include "base/file.h"

namespace torus::gateway {
namespace {

// Both ends of a connection, each as this host's own socket has it.
struct Ends {
  sockaddr_storage own{};
  sockaddr_storage peer{};
};

Result<Ends> EndsOf(int socket) {
  Ends ends;
  socklen_t own = sizeof(ends.own), peer = sizeof(ends.peer);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&ends.own), &own) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&ends.peer), &peer) != 0)
    return NotFound("the connection is closed");
  return ends;
}

// A socket that its process has closed lives on for a moment, without an inode and as if root's.
// Once it is gone, who listens at its port, or calls from there by now, is somebody else.
Result<uid_t> OwnerUnlessClosed(uid_t user, uint64_t inode, int state) {
  if (inode == 0 || state == TCP_LISTEN || state == TCP_SYN_SENT)
    return NotFound("the other end is closed");
  return user;
}

// The port and the address of `end`, as the kernel's tables have them (network order).
std::pair<in_port_t, std::vector<uint32_t>> Parts(const sockaddr_storage& end) {
  if (end.ss_family == AF_INET) {
    const auto& name = reinterpret_cast<const sockaddr_in&>(end);
    return {name.sin_port, {name.sin_addr.s_addr}};
  }
  const auto& name = reinterpret_cast<const sockaddr_in6&>(end);
  std::vector<uint32_t> words(4);
  std::memcpy(words.data(), &name.sin6_addr, sizeof(name.sin6_addr));
  return {name.sin6_port, words};
}

// The peer's socket, asked for by its addresses. UNAVAILABLE: no such table in this kernel.
Result<uid_t> AskSockDiag(const Ends& ends) {
  const Fd netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return Unavailable("no sock_diag: {}", std::strerror(errno));
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } message{};
  message.header.nlmsg_len = sizeof(message);
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST;
  message.request.sdiag_family = static_cast<uint8_t>(ends.peer.ss_family);
  message.request.sdiag_protocol = IPPROTO_TCP;
  inet_diag_sockid& id = message.request.id;
  const auto [source_port, source] = Parts(ends.peer);
  const auto [target_port, target] = Parts(ends.own);
  id.idiag_sport = source_port;
  id.idiag_dport = target_port;
  std::ranges::copy(source, id.idiag_src);
  std::ranges::copy(target, id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(netlink.get(), &message, sizeof(message), 0) != sizeof(message))
    return Unavailable("sock_diag: {}", std::strerror(errno));
  alignas(nlmsghdr) char buffer[8192];
  const ssize_t size = recv(netlink.get(), buffer, sizeof(buffer), 0);
  const auto* answer = reinterpret_cast<const nlmsghdr*>(buffer);
  if (size < 0 || !NLMSG_OK(answer, static_cast<size_t>(size)) ||
      answer->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
      answer->nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg)))
    return Unavailable("sock_diag does not know the socket");
  const auto* found = static_cast<const inet_diag_msg*>(NLMSG_DATA(answer));
  return OwnerUnlessClosed(found->idiag_uid, found->idiag_inode, found->idiag_state);
}

// "0100007F:1D2E", as /proc/net/tcp writes an end: each word as the host reads it.
std::string TableForm(const sockaddr_storage& end) {
  const auto [port, words] = Parts(end);
  std::string text;
  for (const uint32_t word : words) text += fmt::format("{:08X}", word);
  return text + fmt::format(":{:04X}", ntohs(port));
}

Result<uid_t> ReadTable(const Ends& ends) {
  TORUS_ASSIGN_OR_RETURN(
      const std::string table,
      ReadFile(ends.peer.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6"));
  const std::string peer = TableForm(ends.peer), own = TableForm(ends.own);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, from, to, skip;
    words >> number >> from >> to;
    if (from != peer || to != own) continue;
    int state = 0;
    words >> std::hex >> state >> std::dec;
    for (int i = 0; i < 3; ++i) words >> skip;  // queues, timer, retransmits
    uid_t user = 0;
    uint64_t timeout = 0, inode = 0;
    words >> user >> timeout >> inode;
    if (!words) break;
    return OwnerUnlessClosed(user, inode, state);
  }
  return NotFound("the other end is closed");
}

std::string UserName(uid_t user) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? fmt::format("uid {}", user) : found->pw_name;
}

bool IsMember(uid_t user, gid_t group) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return false;
  std::vector<gid_t> groups(64);
  int count = static_cast<int>(groups.size());
  if (getgrouplist(found->pw_name, found->pw_gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<size_t>(count));
    if (getgrouplist(found->pw_name, found->pw_gid, groups.data(), &count) < 0) return false;
  }
  groups.resize(static_cast<size_t>(count));
  return std::ranges::find(groups, group) != groups.end();
}

}  // namespace

Result<uid_t> PeerUser(int socket) {
  TORUS_ASSIGN_OR_RETURN(const Ends ends, EndsOf(socket));
  auto user = AskSockDiag(ends);
  if (user || user.error().code() != Code::kUnavailable) return user;
  return ReadTable(ends);
}

Result<PeerGuard> PeerGuard::Create(const std::string& group) {
  PeerGuard guard;
  if (group.empty()) return guard;
  gid_t number = 0;
  const auto [end, error] = std::from_chars(group.data(), group.data() + group.size(), number);
  const bool is_number = error == std::errc() && end == group.data() + group.size();
  const struct group* found = is_number ? getgrgid(number) : getgrnam(group.c_str());
  if (found == nullptr)
    return InvalidArgument(
        "--allow-group {}: there is no such group. Groups and their members: getent group.", group);
  guard.group_ = found->gr_gid;
  guard.group_name_ = found->gr_name;
  return guard;
}

bool PeerGuard::MayConnect(uid_t user) const {
  return user == geteuid() || user == 0 || (group_ && IsMember(user, *group_));
}

Status PeerGuard::Check(int socket) const {
  const auto user = PeerUser(socket);
  if (!user)
    return PermissionDenied("It cannot be told whose the connection is: {}.",
                            user.error().message());
  if (MayConnect(*user)) return {};
  // A line a user, however often he tries.
  const MutexLock lock(mutex_);
  if (refused_.insert(*user).second)
    spdlog::warn("connections of {} are refused; --allow-group=GROUP lets a group in",
                 UserName(*user));
  return refusal();
}

Status PeerGuard::refusal() const {
  const std::string owner = UserName(geteuid());
  const std::string members =
      group_ ? fmt::format(" and the members of the group {}", group_name_) : "";
  return Status(Code::kPermissionDenied,
                fmt::format("This service answers {}{} only, and the connection is another "
                            "user's. Ask {} to run torus serve with --allow-group=GROUP, a group "
                            "that you are in, or run a service of your own.",
                            owner, members, owner));
}

}  // namespace torus::gateway
