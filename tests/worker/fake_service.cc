#include "fake_service.h"

#include <unistd.h>

#include <atomic>
#include <thread>

namespace torus::worker {

FakeService::FakeService(std::string socket) : socket_(std::move(socket)) {}

void FakeService::Start() {
  unlink(socket_.c_str());
  stopping_ = false;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket_, grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

void FakeService::Stop() {
  if (!server_) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

void FakeService::Order(WorkerOrder order) {
  const std::lock_guard lock(mutex_);
  order_ = std::move(order);
  observed_.reset();
  wake_.notify_all();
}

std::optional<Observed> FakeService::Await(const std::function<bool(const Observed&)>& wanted,
                                           std::chrono::seconds limit) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, limit, [&] { return observed_ && wanted(*observed_); });
  return observed_ && wanted(*observed_) ? observed_ : std::nullopt;
}

std::optional<Observed> FakeService::Await(Phase phase, int64_t generation,
                                           std::chrono::seconds limit) {
  return Await(
      [=](const Observed& o) { return o.phase() == phase && o.generation() == generation; }, limit);
}

void FakeService::Refuse(grpc::Status status) {
  const std::lock_guard lock(mutex_);
  refusal_ = std::move(status);
}

int FakeService::hellos() {
  const std::lock_guard lock(mutex_);
  return hellos_;
}

Hello FakeService::last_hello() {
  const std::lock_guard lock(mutex_);
  return hello_;
}

std::string FakeService::last_report() {
  const std::lock_guard lock(mutex_);
  return observed_ ? observed_->ShortDebugString() : "no report";
}

grpc::Status FakeService::Connect(grpc::ServerContext*,
                                  grpc::ServerReaderWriter<WorkerOrder, WorkerReport>* stream) {
  std::atomic<bool> ended = false;
  std::thread writer([&] {
    int64_t sent = -1;
    std::unique_lock lock(mutex_);
    while (!ended && !stopping_) {
      wake_.wait(lock,
                 [&] { return ended || stopping_ || (order_ && order_->generation() != sent); });
      if (ended || stopping_) return;
      const WorkerOrder order = *order_;
      sent = order.generation();
      lock.unlock();
      stream->Write(order);
      lock.lock();
    }
  });
  WorkerReport report;
  while (stream->Read(&report)) {
    const std::lock_guard lock(mutex_);
    if (report.has_hello()) {
      hello_ = report.hello();
      ++hellos_;
      if (!refusal_.ok()) break;
    } else {
      observed_ = report.observed();
    }
    wake_.notify_all();
  }
  {
    const std::lock_guard lock(mutex_);
    ended = true;
    wake_.notify_all();
  }
  writer.join();
  const std::lock_guard lock(mutex_);
  return refusal_;
}

}  // namespace torus::worker
