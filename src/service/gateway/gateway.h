// The gateway: one port for gRPC and REST. A connection is told apart by its first bytes (HTTP/2's
// preface begins with "PRI") and handed to gRPC with its socket, or served as HTTP/1.1.
//
// Thread-safety: Start and Stop from one thread.
#ifndef TORUS_SERVICE_GATEWAY_GATEWAY_H_
#define TORUS_SERVICE_GATEWAY_GATEWAY_H_

#include <memory>

#include "base/status.h"
#include "service/gateway/guard.h"
#include "service/gateway/peer_guard.h"
#include "service/gateway/registry.h"

namespace torus::gateway {

class Gateway {
 public:
  // Listens and serves at once those whom `guard` lets in; others are told why not. `registry` is
  // not owned and outlives the gateway.
  // FAILED_PRECONDITION: the port is taken, or may not be used.
  static Result<std::unique_ptr<Gateway>> Start(const Endpoint& endpoint, PeerGuard guard,
                                                const Registry& registry);
  // As Stop with no patience.
  ~Gateway();

  // Where it listens; the port is the real one.
  const Endpoint& endpoint() const;

  // Takes no new connection, lets the requests under way end (at most `seconds`), closes the rest.
  void Stop(int seconds);

 private:
  class Impl;
  explicit Gateway(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_GATEWAY_H_
