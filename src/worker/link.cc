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
// For the service to take what was written last.
constexpr auto kLastWords = std::chrono::seconds(2);

}  // namespace

Link::Link(std::string socket, Hello hello, std::function<void(const WorkerOrder&)> on_order)
    : socket_(std::move(socket)), hello_(std::move(hello)), on_order_(std::move(on_order)) {
  thread_ = std::thread([this] { Run(); });
}

Link::~Link() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

void Link::Report(Observed observed) {
  const MutexLock lock(mutex_);
  report_ = std::move(observed);
  unsent_ = true;
  wake_.NotifyAll();
}

bool Link::Flush(milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  MutexLock lock(mutex_);
  while (unsent_ && wake_.WaitUntil(lock, deadline)) {
  }
  return !unsent_;
}

void Link::Run() {
  milliseconds pause{20};
  for (;;) {
    if (Talk()) pause = milliseconds(20);
    const auto again = Clock::now() + pause;
    MutexLock lock(mutex_);
    while (!stopping_ && wake_.WaitUntil(lock, again)) {
    }
    if (stopping_) return;
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
    const MutexLock lock(mutex_);
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
    const MutexLock lock(mutex_);
    broken_ = true;
    wake_.NotifyAll();
  });
  MutexLock lock(mutex_);
  while (!broken_ && !stopping_) {
    while (!broken_ && !stopping_ && !unsent_) wake_.Wait(lock);
    if (broken_ || stopping_) break;
    WorkerReport report;
    *report.mutable_observed() = *report_;
    unsent_ = false;
    lock.Unlock();
    const bool sent = stream->Write(report);
    lock.Lock();
    if (!sent) {
      unsent_ = true;
      break;
    }
    wake_.NotifyAll();
  }
  const bool ended = broken_;  // by the service
  const bool ending = stopping_ && !broken_;
  lock.Unlock();
  // A stream that is cancelled at once may lose what was written last.
  if (ending && stream->WritesDone()) {
    lock.Lock();
    const auto patience = Clock::now() + kLastWords;
    while (!broken_ && wake_.WaitUntil(lock, patience)) {
    }
    lock.Unlock();
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
