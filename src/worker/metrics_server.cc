#include "worker/metrics_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tpu_metrics.grpc.pb.h"
#include "worker/network.h"
#include "worker/runtime_metrics.h"
#include "worker/vm_counters.h"

namespace torus::worker {
namespace {

namespace runtime = tpu::monitoring::runtime;
using std::chrono::milliseconds;

constexpr char kAddress[] = "127.0.0.1";
constexpr uint16_t kPort = 8431;
constexpr size_t kMaxConnections = 32;
constexpr int kMaxMessage = 4096;
constexpr int kMaxThreads = 4;
constexpr size_t kMaxMemory = 16 << 20;
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

bool HasEnded(const Fd& socket) {
  pollfd poll_fd{socket.get(), POLLRDHUP, 0};
  return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Result<Fd> MakeListener(const std::string& address, uint16_t port) {
  Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  if (!listener || setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)) != 0 ||
      listen(listener.get(), 16) != 0)
    return Unavailable("the metrics server cannot listen on {}:{}: {}", address, port,
                       std::strerror(errno));
  return listener;
}

}  // namespace

class MetricsServer::Impl {
 public:
  Impl(Fd listener, std::string root)
      : service_(std::move(root)), listener_(std::move(listener)), stop_(eventfd(0, EFD_CLOEXEC)) {}

  ~Impl() {
    if (thread_.joinable()) {
      const uint64_t one = 1;
      (void)!write(stop_.get(), &one, sizeof(one));
      thread_.join();
    }
    listener_.Close();
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }

  Status Start() {
    grpc::ResourceQuota quota("metrics");
    quota.SetMaxThreads(kMaxThreads).Resize(kMaxMemory);
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kMaxMessage);
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5'000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60'000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, 600'000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 5'000);
    builder.RegisterService(&service_);
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    server_ = builder.BuildAndStart();
    if (!server_ || !stop_) return Internal("the metrics server's gRPC did not start");
    thread_ = std::thread([this] {
      prctl(PR_SET_NAME, "metrics");
      Accept();
    });
    return {};
  }

  uint16_t port() const {
    sockaddr_in where{};
    socklen_t size = sizeof(where);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&where), &size);
    return ntohs(where.sin_port);
  }

 private:
  void Accept() {
    for (;;) {
      pollfd ready[] = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
      if (ready[0].revents != 0) return;
      Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        // Out of descriptors: no busy loop.
        if (errno != EAGAIN) std::this_thread::sleep_for(milliseconds(100));
        continue;
      }
      std::erase_if(connections_, HasEnded);
      if (connections_.size() >= kMaxConnections) continue;  // the socket closes
      // gRPC says nothing when a connection ends: a descriptor of our own tells.
      Fd own(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
      if (!own) continue;
      connections_.push_back(std::move(own));
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = socket.Release();
      acceptor_->HandleNewConnection(&connection);
    }
  }

  Service service_;
  Fd listener_;
  const Fd stop_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<Fd> connections_;  // the thread's own
  std::thread thread_;
};

MetricsServer::MetricsServer() = default;
MetricsServer::~MetricsServer() { Stop(); }

Status MetricsServer::Listen(int64_t pid) {
  Stop();
  Fd listener;
  // Only the socket: threads that were started there would keep the namespace.
  TORUS_RETURN_IF_ERROR(InNetworkOf(pid, [&] {
    auto made = MakeListener(kAddress, kPort);
    if (!made) return made.error();
    listener = *std::move(made);
    return Status();
  }));
  return Serve(std::move(listener), fmt::format("/proc/{}/root", pid));
}

Result<uint16_t> MetricsServer::ListenAt(const std::string& address, uint16_t port,
                                         const std::string& root) {
  Stop();
  TORUS_ASSIGN_OR_RETURN(Fd listener, MakeListener(address, port));
  TORUS_RETURN_IF_ERROR(Serve(std::move(listener), root));
  return impl_->port();
}

Status MetricsServer::Serve(Fd listener, const std::string& root) {
  auto impl = std::make_unique<Impl>(std::move(listener), root);
  TORUS_RETURN_IF_ERROR(impl->Start());
  impl_ = std::move(impl);
  return {};
}

void MetricsServer::Stop() { impl_.reset(); }

}  // namespace torus::worker
