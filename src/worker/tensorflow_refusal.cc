#include "worker/tensorflow_refusal.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include "base/mutex.h"
#include "worker/grpc_listener.h"
#include "worker/network.h"

namespace torus::worker {
namespace {

constexpr uint16_t kPort = 8470;         // of upstream's worker
constexpr uint16_t kRefusalPort = 8048;  // beside kMetadataPort

class Refused : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refused(const std::string& words) {
    Finish({grpc::StatusCode::FAILED_PRECONDITION, words});
  }
  void OnDone() override { delete this; }
};

class Service : public grpc::CallbackGenericService {
 public:
  explicit Service(std::string words) : words_(std::move(words)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Refused(words_);
  }

 private:
  const std::string words_;
};

}  // namespace

std::string RefusalOf(const VmSpec& vm) {
  return fmt::format(
      "The TPU VM \"{0}\" has no TensorFlow worker: its runtime version is {1}, which is without "
      "TensorFlow, and no program of the VM listens on port {2}. Create a node whose runtime "
      "version has it (gcloud compute tpus tpu-vm create NAME --zone={3} --accelerator-type={4} "
      "--version=2.20.0, or your own TensorFlow's version from 2.13.0 on), or run your program "
      "in this VM with tensorflow-tpu and TPUClusterResolver(tpu=\"local\")",
      vm.node_id(), vm.runtime_version(), kPort, vm.zone(), vm.accelerator_type());
}

class TensorFlowRefusal::Impl {
 public:
  Impl(std::string words, int64_t pid) : service_(std::move(words)), pid_(pid) {}

  Status Start() {
    TORUS_ASSIGN_OR_RETURN(Fd listener, ListenInNetworkOf(pid_, "0.0.0.0", kRefusalPort));
    TORUS_ASSIGN_OR_RETURN(
        server_, GrpcListener::Start(std::move(listener),
                                     {.name = "refusal",
                                      .registered =
                                          [this](grpc::ServerBuilder& builder) {
                                            builder.RegisterCallbackGenericService(&service_);
                                          },
                                      .admits = [this] { return StillOurs(); }}));
    return Lead();
  }

  // Also after a program of the VM's had the port between two looks, and is gone.
  Status Lead() {
    const MutexLock lock(mutex_);
    if (leads_) return {};
    TORUS_RETURN_IF_ERROR(LeadPort(pid_, kPort, kRefusalPort));
    leads_ = true;
    return {};
  }

 private:
  bool StillOurs() {
    if (!HasListener(pid_, kPort)) return true;
    const MutexLock lock(mutex_);
    if (leads_) leads_ = !LeavePort(pid_, kPort).ok();
    return false;
  }

  Service service_;
  const int64_t pid_;
  Mutex mutex_;
  bool leads_ TORUS_GUARDED_BY(mutex_) = false;
  std::unique_ptr<GrpcListener> server_;
};

TensorFlowRefusal::TensorFlowRefusal() = default;
TensorFlowRefusal::~TensorFlowRefusal() = default;

Status TensorFlowRefusal::Keep(const VmSpec& vm, int64_t pid) {
  if (pid_ != pid) Stop();
  if (HasListener(pid, kPort)) {
    const bool led = impl_ || pid_ != pid;  // an earlier worker's rules may stand
    Stop();
    pid_ = pid;
    return led ? LeavePort(pid, kPort) : Status();
  }
  if (impl_) return impl_->Lead();
  auto impl = std::make_unique<Impl>(RefusalOf(vm), pid);
  TORUS_RETURN_IF_ERROR(impl->Start());
  impl_ = std::move(impl);
  pid_ = pid;
  return {};
}

void TensorFlowRefusal::Stop() {
  impl_.reset();
  pid_ = 0;
}

}  // namespace torus::worker
