#include "service/backend/local/worker_hub.h"

#include <google/protobuf/util/message_differencer.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

namespace torus::backend {
namespace {

constexpr int kOldestProtocol = 1;
constexpr int kNewestProtocol = 1;
constexpr int kPingMs = 10'000;

}  // namespace

// One worker's connection. gRPC calls its methods one after another and deletes it by OnDone.
class WorkerHub::Stream
    : public grpc::ServerBidiReactor<worker::WorkerReport, worker::WorkerOrder> {
 public:
  explicit Stream(WorkerHub* hub) : hub_(*hub) { StartRead(&report_); }

  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    grpc::Status status;
    std::string uid;
    {
      const Guard lock(hub_.mutex_);
      status = Take(report_);
      if (key_) uid = key_->node_uid;
    }
    if (!status.ok()) return End(status);
    FaultPoint("backend.report");
    hub_.news_(uid);
    StartRead(&report_);
  }

  void OnWriteDone(bool ok) override {
    const Guard lock(hub_.mutex_);
    writing_ = false;
    if (ok) Send();
  }

  void OnCancel() override { End(grpc::Status::CANCELLED); }

  void OnDone() override {
    std::string uid;
    {
      const Guard lock(hub_.mutex_);
      if (key_) {
        uid = key_->node_uid;
        const auto vm = hub_.vms_.find(*key_);
        if (vm != hub_.vms_.end() && vm->second.stream == this) {
          vm->second.stream = nullptr;
          vm->second.seen.reset();
          if (!vm->second.order) hub_.vms_.erase(vm);
        }
      }
    }
    if (!uid.empty()) hub_.news_(uid);
    delete this;
  }

  // Sends the VM's order if the worker has another. Requires: the hub's mutex is held.
  void Send() {
    hub_.mutex_.AssertHeld();
    const auto& order = hub_.vms_[*key_].order;
    if (writing_ || ended_ || !order) return;
    if (google::protobuf::util::MessageDifferencer::Equals(*order, sent_)) return;
    FaultPoint("backend.order");
    sent_ = *order;
    writing_ = true;
    StartWrite(&sent_);
  }

  // Ends the connection once. Takes the hub's mutex.
  void End(const grpc::Status& status) {
    {
      const Guard lock(hub_.mutex_);
      if (std::exchange(ended_, true)) return;
    }
    Finish(status);
  }

 private:
  grpc::Status Take(const worker::WorkerReport& report) TORUS_REQUIRES(hub_.mutex_) {
    if (report.has_hello()) return TakeHello(report.hello());
    if (!key_) return {grpc::StatusCode::INVALID_ARGUMENT, "the first message must be Hello"};
    if (report.has_observed()) hub_.vms_[*key_].seen = report.observed();
    return grpc::Status::OK;
  }

  grpc::Status TakeHello(const worker::Hello& hello) TORUS_REQUIRES(hub_.mutex_) {
    if (hello.protocol_version() < kOldestProtocol || hello.protocol_version() > kNewestProtocol)
      return Refuse(hello);
    if (key_) return {grpc::StatusCode::INVALID_ARGUMENT, "Hello came twice"};
    key_ = VmKey{hello.node_uid(), hello.worker_index()};
    Vm& vm = hub_.vms_[*key_];
    // A worker holds its VM's lock, so an older stream is one whose end has not been noticed yet.
    vm.stream = this;
    vm.seen.reset();
    Send();
    return grpc::Status::OK;
  }

  // A worker of another age: said in the log, and in the node's health until another one dials in.
  grpc::Status Refuse(const worker::Hello& hello) TORUS_REQUIRES(hub_.mutex_) {
    const std::string reason = fmt::format(
        "The VM's worker (pid {}, build {}) speaks protocol {}, and this service {} to {}. End "
        "that process: the service starts its own, which adopts the VM.",
        hello.pid(), hello.build(), hello.protocol_version(), kOldestProtocol, kNewestProtocol);
    spdlog::warn("worker {} of node {} is refused: {}", hello.worker_index(), hello.node_uid(),
                 reason);
    worker::Observed failed;
    failed.set_phase(worker::FAILED);
    failed.set_error_code(static_cast<int>(Code::kUnavailable));
    failed.set_error(reason);
    const auto vm = hub_.vms_.find({hello.node_uid(), hello.worker_index()});
    if (vm != hub_.vms_.end()) vm->second.seen = failed;  // of a VM not known yet: it dials again
    return {grpc::StatusCode::FAILED_PRECONDITION, reason};
  }

  WorkerHub& hub_;
  worker::WorkerReport report_;
  worker::WorkerOrder sent_ TORUS_GUARDED_BY(hub_.mutex_);
  std::optional<VmKey> key_ TORUS_GUARDED_BY(hub_.mutex_);
  bool writing_ TORUS_GUARDED_BY(hub_.mutex_) = false;
  bool ended_ TORUS_GUARDED_BY(hub_.mutex_) = false;
};

WorkerHub::~WorkerHub() {
  if (!server_) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

Status WorkerHub::Start(const std::string& socket) {
  unlink(socket.c_str());
  const mode_t before = umask(0077);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  // A worker that hangs answers no ping, and its stream ends.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  umask(before);
  if (!server_)
    return FailedPrecondition(
        "Cannot listen on the workers' socket {} (a path may have at most 107 characters: choose a "
        "shorter --data-dir).",
        socket);
  return {};
}

void WorkerHub::Order(const VmKey& key, const worker::WorkerOrder& order) {
  const Guard lock(mutex_);
  Vm& vm = vms_[key];
  vm.order = order;
  if (vm.stream != nullptr) vm.stream->Send();
}

std::optional<worker::Observed> WorkerHub::Seen(const VmKey& key) const {
  const Guard lock(mutex_);
  const auto vm = vms_.find(key);
  return vm == vms_.end() ? std::nullopt : vm->second.seen;
}

bool WorkerHub::Connected(const VmKey& key) const {
  const Guard lock(mutex_);
  const auto vm = vms_.find(key);
  return vm != vms_.end() && vm->second.stream != nullptr;
}

void WorkerHub::Forget(const VmKey& key) {
  const Guard lock(mutex_);
  const auto vm = vms_.find(key);
  if (vm == vms_.end()) return;
  if (vm->second.stream == nullptr)
    vms_.erase(vm);
  else
    vm->second.order.reset();
}

grpc::ServerBidiReactor<worker::WorkerReport, worker::WorkerOrder>* WorkerHub::Connect(
    grpc::CallbackServerContext*) {
  return new Stream(this);
}

}  // namespace torus::backend
