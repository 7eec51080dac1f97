// The service's end of proto/worker.proto, as small as a test needs it: one order at a time for one
// worker, and what it said last.
#ifndef TORUS_TESTS_WORKER_FAKE_SERVICE_H_
#define TORUS_TESTS_WORKER_FAKE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "worker.grpc.pb.h"

namespace torus::worker {

class FakeService : public WorkerLink::Service {
 public:
  explicit FakeService(std::string socket);
  ~FakeService() override { Stop(); }

  void Start();
  void Stop();  // as a service that dies: streams break

  void Order(WorkerOrder order);
  // Waits for a report that `wanted` likes.
  std::optional<Observed> Await(const std::function<bool(const Observed&)>& wanted,
                                std::chrono::seconds limit = std::chrono::seconds(60));
  std::optional<Observed> Await(Phase phase, int64_t generation,
                                std::chrono::seconds limit = std::chrono::seconds(60));
  // Ends every stream with this status from now on; OK: takes them again.
  void Refuse(grpc::Status status);
  int hellos();
  Hello last_hello();
  // The last report since the last order, as text.
  std::string last_report();

 private:
  grpc::Status Connect(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<WorkerOrder, WorkerReport>* stream) override;

  const std::string socket_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<WorkerOrder> order_;  // guarded by mutex_, as is all below
  std::optional<Observed> observed_;
  Hello hello_;
  int hellos_ = 0;
  bool stopping_ = false;
  grpc::Status refusal_;
};

}  // namespace torus::worker

#endif  // TORUS_TESTS_WORKER_FAKE_SERVICE_H_
