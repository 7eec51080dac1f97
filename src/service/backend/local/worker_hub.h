// The service's end of the worker protocol (proto/worker.proto): a gRPC server on a Unix socket in
// the data folder. It keeps, for each VM, the order it should have and what its worker said last.
//
// Nothing here is durable: an order follows from the node's record, and a worker that dials again
// says again how its VM is.
//
// Thread-safe. `news` is called from gRPC's threads, without a lock held.
#ifndef TORUS_SERVICE_BACKEND_LOCAL_WORKER_HUB_H_
#define TORUS_SERVICE_BACKEND_LOCAL_WORKER_HUB_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "worker.grpc.pb.h"

namespace torus::backend {

// One VM: its node's uid and its host's index in the slice.
struct VmKey {
  std::string node_uid;
  int index = 0;
  auto operator<=>(const VmKey&) const = default;
};

class WorkerHub : public worker::WorkerLink::CallbackService {
 public:
  // `news` is told the node's uid when one of its workers dials in, reports or is lost.
  explicit WorkerHub(std::function<void(const std::string& node_uid)> news)
      : news_(std::move(news)) {}
  ~WorkerHub() override;

  // Serves on `socket` (mode 0600). FAILED_PRECONDITION if it cannot.
  Status Start(const std::string& socket);

  // What the VM should have; sent at once if its worker is there and has another.
  void Order(const VmKey& key, const worker::WorkerOrder& order);
  // What the worker that is connected now said last; nullopt: none is, or it has said nothing yet.
  std::optional<worker::Observed> Seen(const VmKey& key) const;
  bool Connected(const VmKey& key) const;
  void Forget(const VmKey& key);

  grpc::ServerBidiReactor<worker::WorkerReport, worker::WorkerOrder>* Connect(
      grpc::CallbackServerContext* context) override;

 private:
  class Stream;
  struct Vm {
    Stream* stream = nullptr;  // owns itself; null: no worker is connected
    std::optional<worker::WorkerOrder> order;
    std::optional<worker::Observed> seen;
  };

  const std::function<void(const std::string&)> news_;
  // Recursive: gRPC may run a callback of a write inside the call that starts it.
  mutable RecursiveMutex mutex_;
  std::map<VmKey, Vm> vms_ TORUS_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_LOCAL_WORKER_HUB_H_
