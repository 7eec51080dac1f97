// A gRPC server of the worker's that clients reach at a port of a VM's network. It runs in the
// worker, outside of the VM; the VM's connections, what they send and their time are bounded.
//
// Not thread-safe: one caller at a time. Threads: one that accepts, and gRPC's.
#ifndef TORUS_WORKER_GRPC_LISTENER_H_
#define TORUS_WORKER_GRPC_LISTENER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace torus::worker {

// A listening socket in the network namespace of process `pid`. UNAVAILABLE: the port is another's.
Result<Fd> ListenInNetworkOf(int64_t pid, const std::string& address, uint16_t port);
// The same in the calling thread's namespace (port 0: any free one).
Result<Fd> ListenHere(const std::string& address, uint16_t port);

class GrpcListener {
 public:
  struct Services {
    std::string name;                                      // of the thread; at most 15 bytes
    std::function<void(grpc::ServerBuilder&)> registered;  // what they register outlives the server
    // Asked for each connection, on the accepting thread; it closes where this says no. May be
    // empty.
    std::function<bool()> admits;
  };

  // INTERNAL: gRPC did not start.
  static Result<std::unique_ptr<GrpcListener>> Start(Fd listener, Services services);
  // Closes every socket, so that the namespace can go.
  ~GrpcListener();
  GrpcListener(const GrpcListener&) = delete;

  uint16_t port() const;

 private:
  GrpcListener(Fd listener, Services services);
  Status Begin();
  void Accept();

  const Services services_;
  Fd listener_;
  const Fd stop_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<Fd> connections_;  // the thread's own
  std::thread thread_;
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_GRPC_LISTENER_H_
