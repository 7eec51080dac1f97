// The VM's RuntimeMetricService: gRPC on port 8431 of the VM's own localhost, as upstream's libtpu
// serves it there from within a framework's process. tpu-info and libtpu.sdk ask it.
//
// It is served from the worker and is open for as long as the VM runs; where no process uses the
// TPU it answers UNAVAILABLE, so clients say what they say of a closed port. The VM's connections,
// what they send and their time are bounded.
//
// Not thread-safe: one caller at a time. Threads: one of its own, and gRPC's.
#ifndef TORUS_WORKER_METRICS_SERVER_H_
#define TORUS_WORKER_METRICS_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace torus::worker {

class MetricsServer {
 public:
  MetricsServer();
  ~MetricsServer();

  // Serves in the network namespace of process `pid` what the processes below its root use; again
  // for another one moves there. UNAVAILABLE: the port is another's.
  Status Listen(int64_t pid);
  // As Listen, at an address and port of the calling thread's namespace (port 0: any free one), of
  // the processes below `root`. Returns the port.
  Result<uint16_t> ListenAt(const std::string& address, uint16_t port, const std::string& root);
  bool is_listening() const { return impl_ != nullptr; }

  // Closes every socket, so that the namespace can go. Idempotent.
  void Stop();

 private:
  class Impl;
  Status Serve(Fd listener, const std::string& root);

  std::unique_ptr<Impl> impl_;
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_METRICS_SERVER_H_
