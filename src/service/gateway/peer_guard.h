// Who may connect: on loopback every user of the machine reaches the port, and the service is one
// user's own. The kernel says who owns the other end of a connection; the service's user and root
// may use it, and the members of a group if the operator names one.
//
// Thread-safe.
#ifndef TORUS_SERVICE_GATEWAY_PEER_GUARD_H_
#define TORUS_SERVICE_GATEWAY_PEER_GUARD_H_

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/status.h"

namespace torus::gateway {

// The user who made the other end of `socket`, a connected loopback TCP socket of this host.
// NOT_FOUND: that end has been closed already, so nobody can be held to own it; UNAVAILABLE: the
// kernel does not say. Source: sock_diag(7), else /proc/net/tcp (proc(5)).
Result<uid_t> PeerUser(int socket);

class PeerGuard {
 public:
  // `group`: its members may connect, too; a name or a number; empty: none. INVALID_ARGUMENT: there
  // is no such group.
  static Result<PeerGuard> Create(const std::string& group);
  PeerGuard(PeerGuard&& other) noexcept
      : group_(other.group_), group_name_(std::move(other.group_name_)) {}

  // Whether the user at the other end may use the service: OK, refusal(), or PERMISSION_DENIED with
  // why it is not known who he is.
  Status Check(int socket) const;

  // What a refused client is told: PERMISSION_DENIED with who may, and how to be let in.
  Status refusal() const;

 private:
  PeerGuard() = default;
  bool MayConnect(uid_t user) const;

  std::optional<gid_t> group_;
  std::string group_name_;
  mutable Mutex mutex_;
  mutable std::set<uid_t> refused_ TORUS_GUARDED_BY(mutex_);  // logged already
};

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_PEER_GUARD_H_
