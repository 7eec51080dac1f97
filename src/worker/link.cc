#include "worker/link.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/status.h"
#include "worker.grpc.pb.h"

namespace torus::worker {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// An order brings all of a node's and its project's metadata.
constexpr int kMaxOrderBytes = 64 << 20;
// A stream that lived so long was a good one: the next is dialled at once.
constexpr auto kGoodStream = std::chrono::seconds(1);

}  // namespace

Link::Link(std::string socket, Hello hello, std::function<void(const WorkerOrder&)> on_order)
    : socket_(std::move(socket)), hello_(std::move(hello)), on_order_(std::move(on_order)) {
  thread_ = std::thread([this] { Run(); });
}

Link::~Link() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Link::Report(Observed observed) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(observed);
  unsent_ = true;
  wake_.notify_all();
}

bool Link::Flush(milliseconds limit) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, limit, [this] { return !unsent_; });
}

void Link::Run() {
  milliseconds pause{20};
  for (;;) {
    if (Talk()) pause = milliseconds(20);
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, pause, [this] { return stopping_; })) return;
    pause = std::min(pause * 2, milliseconds(1000));
  }
}

bool Link::Talk() {
  // A channel of its own each time: a shared one would keep gRPC's own, longer back-off.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMaxOrderBytes);
  const auto channel =
      grpc::CreateCustomChannel("unix:" + socket_, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = WorkerLink::NewStub(channel);
  grpc::ClientContext context;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    broken_ = false;
    unsent_ = report_.has_value();
  }
  const auto begin = Clock::now();
  const auto stream = stub->Connect(&context);
  WorkerReport hello;
  *hello.mutable_hello() = hello_;
  stream->Write(hello);
  bool accepted = false;  // the service has answered; the reader's until it is joined

  std::thread reader([&] {
    WorkerOrder order;
    while (stream->Read(&order)) {
      accepted = true;
      on_order_(order);
    }
    const std::lock_guard lock(mutex_);
    broken_ = true;
    wake_.notify_all();
  });
  std::unique_lock lock(mutex_);
  while (!broken_ && !stopping_) {
    wake_.wait(lock, [this] { return broken_ || stopping_ || unsent_; });
    if (broken_ || stopping_) break;
    WorkerReport report;
    *report.mutable_observed() = *report_;
    unsent_ = false;
    lock.unlock();
    const bool sent = stream->Write(report);
    lock.lock();
    if (!sent) {
      unsent_ = true;
      break;
    }
    wake_.notify_all();
  }
  const bool ended = broken_;  // by the service
  const bool ending = stopping_ && !broken_;
  lock.unlock();
  // A stream that is cancelled at once may lose what was written last.
  if (ending && stream->WritesDone()) {
    lock.lock();
    wake_.wait_for(lock, milliseconds(2000), [this] { return broken_; });
    lock.unlock();
  }
  if (!ended) context.TryCancel();
  reader.join();
  const grpc::Status status = stream->Finish();
  if (ended) LogEnd(accepted, status.error_code(), status.error_message());
  return accepted && Clock::now() - begin >= kGoodStream;
}

void Link::LogEnd(bool accepted, int code, const std::string& message) {
  if (code == grpc::StatusCode::OK || code == grpc::StatusCode::UNAVAILABLE) {
    if (accepted) spdlog::info("the service's stream ended: {}", message);
    refusal_.clear();
    return;
  }
  const std::string text = Status(static_cast<Code>(code), message).ToString();
  if (text == refusal_) return;
  refusal_ = text;
  spdlog::error("the service ended the stream: {}; dialling it again and again", text);
}

}  // namespace torus::worker
