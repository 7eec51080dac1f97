#include "worker/metrics_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <thread>

#include "base/mutex.h"
#include "tpu_metrics.grpc.pb.h"
#include "worker/grpc_listener.h"
#include "worker/runtime_metrics.h"
#include "worker/vm_counters.h"

namespace torus::worker {
namespace {

namespace runtime = tpu::monitoring::runtime;
constexpr char kAddress[] = "127.0.0.1";
constexpr uint16_t kPort = 8431;
// A rate is one of the time since an earlier request, if that is neither too short nor too long.
constexpr int64_t kShortest = 250'000'000, kLongest = 10'000'000'000;  // nanoseconds

grpc::Status ToGrpc(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

class Service : public runtime::RuntimeMetricService::Service {
 public:
  explicit Service(std::string root) : root_(std::move(root)) {}

  grpc::Status GetRuntimeMetric(grpc::ServerContext*, const runtime::MetricRequest* request,
                                runtime::MetricResponse* response) override {
    const auto [before, now] = Window();
    auto metric = MetricOf(request->metric_name(), before, now);
    if (!metric) return ToGrpc(metric.error());
    *response->mutable_metric() = *std::move(metric);
    return grpc::Status::OK;
  }

  grpc::Status ListSupportedMetrics(grpc::ServerContext*,
                                    const runtime::ListSupportedMetricsRequest* request,
                                    runtime::ListSupportedMetricsResponse* response) override {
    for (const std::string_view name : MetricNames())
      if (name.find(request->filter()) != std::string_view::npos)
        response->add_supported_metric()->set_metric_name(std::string(name));
    return grpc::Status::OK;
  }

  grpc::Status GetTpuRuntimeStatus(grpc::ServerContext*, const runtime::GetTpuRuntimeStatusRequest*,
                                   runtime::GetTpuRuntimeStatusResponse* response) override {
    auto status = StatusOf(Look());
    if (!status) return ToGrpc(status.error());
    *response = *std::move(status);
    return grpc::Status::OK;
  }

 private:
  struct Times {
    UsageSample before, now;
  };

  UsageSample Look() const {
    const int64_t now = slice::CountersNow();
    return SampleOf(ReadVmCounters(root_, now), now);
  }

  // Two looks that are a while apart: the first of them is an earlier request's, if there was one.
  Times Window() {
    const MutexLock lock(mutex_);
    UsageSample now = Look();
    if (now.devices.empty()) return {now, now};
    if (now.at - last_.at < kShortest) return {before_, std::move(now)};
    if (now.at - last_.at > kLongest) {
      last_ = std::move(now);
      std::this_thread::sleep_for(std::chrono::nanoseconds(kShortest));
      now = Look();
    }
    before_ = std::exchange(last_, now);
    return {before_, std::move(now)};
  }

  const std::string root_;
  Mutex mutex_;
  UsageSample before_ TORUS_GUARDED_BY(mutex_);  // at least kShortest older than last_
  UsageSample last_ TORUS_GUARDED_BY(mutex_);
};

}  // namespace

class MetricsServer::Impl {
 public:
  explicit Impl(std::string root) : service_(std::move(root)) {}

  Status Start(Fd listener) {
    TORUS_ASSIGN_OR_RETURN(
        server_,
        GrpcListener::Start(std::move(listener),
                            {.name = "metrics", .registered = [this](grpc::ServerBuilder& builder) {
                               builder.RegisterService(&service_);
                             }}));
    return {};
  }
  uint16_t port() const { return server_->port(); }

 private:
  Service service_;
  std::unique_ptr<GrpcListener> server_;
};

MetricsServer::MetricsServer() = default;
MetricsServer::~MetricsServer() { Stop(); }

Status MetricsServer::Listen(int64_t pid) {
  Stop();
  TORUS_ASSIGN_OR_RETURN(Fd listener, ListenInNetworkOf(pid, kAddress, kPort));
  return Serve(std::move(listener), fmt::format("/proc/{}/root", pid));
}

Result<uint16_t> MetricsServer::ListenAt(const std::string& address, uint16_t port,
                                         const std::string& root) {
  Stop();
  TORUS_ASSIGN_OR_RETURN(Fd listener, ListenHere(address, port));
  TORUS_RETURN_IF_ERROR(Serve(std::move(listener), root));
  return impl_->port();
}

Status MetricsServer::Serve(Fd listener, const std::string& root) {
  auto impl = std::make_unique<Impl>(root);
  TORUS_RETURN_IF_ERROR(impl->Start(std::move(listener)));
  impl_ = std::move(impl);
  return {};
}

void MetricsServer::Stop() { impl_.reset(); }

}  // namespace torus::worker
