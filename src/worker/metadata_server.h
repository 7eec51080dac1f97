// The VM's metadata server: HTTP on 169.254.169.254 inside the VM's network namespace, served from
// the worker, so that nothing in the VM can change what it says.
//
// It follows Compute Engine: `Metadata-Flavor: Google` is required and returned, requests with
// X-Forwarded-For are refused, `?wait_for_change=true` holds a request until the tree changes.
// Guest attributes are the VM's to write and read; they are text (UTF-8). A VM's connections, how
// many of them wait, their time, what they send and what is on its way to them are bounded; more
// is answered by 503. A request that waits costs nothing until something changes.
//
// Not thread-safe: one caller at a time. Threads: one of its own, which calls `changed`.
#ifndef TORUS_WORKER_METADATA_SERVER_H_
#define TORUS_WORKER_METADATA_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "worker/metadata_tree.h"

namespace torus::worker {

// "namespace/key" to value.
using GuestAttributes = std::map<std::string, std::string>;

class MetadataServer {
 public:
  // `changed` is called, from the server's thread, with all guest attributes after each change.
  explicit MetadataServer(std::function<void(const GuestAttributes&)> changed = {});
  ~MetadataServer();

  // Serves in the network namespace of process `pid`; again for another one moves there.
  Status Listen(int64_t pid);
  // As Listen, at an address and port of the calling thread's namespace (port 0: any free one).
  // Returns the port.
  Result<uint16_t> ListenAt(const std::string& address, uint16_t port);

  // What to answer from now on.
  void SetTree(MetadataNode tree);
  void SetGuestAttributes(GuestAttributes attributes);

  // Closes every socket, so that the namespace can go. Idempotent.
  void Stop();

 private:
  class Impl;
  const std::function<void(const GuestAttributes&)> changed_;
  std::shared_ptr<const MetadataNode> tree_;  // what the next Listen begins with
  GuestAttributes attributes_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_METADATA_SERVER_H_
