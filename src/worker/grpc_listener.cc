#include "worker/grpc_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/resource_quota.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "worker/network.h"

namespace torus::worker {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxConnections = 32;
constexpr int kMaxMessage = 4096;
constexpr int kMaxThreads = 4;
constexpr size_t kMaxMemory = 16 << 20;

bool HasEnded(const Fd& socket) {
  pollfd poll_fd{socket.get(), POLLRDHUP, 0};
  return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

Result<Fd> ListenHere(const std::string& address, uint16_t port) {
  Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  if (!listener || setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)) != 0 ||
      listen(listener.get(), 16) != 0)
    return Unavailable("cannot listen on {}:{}: {}", address, port, std::strerror(errno));
  return listener;
}

Result<Fd> ListenInNetworkOf(int64_t pid, const std::string& address, uint16_t port) {
  Fd listener;
  // Only the socket: threads that were started there would keep the namespace.
  TORUS_RETURN_IF_ERROR(InNetworkOf(pid, [&]() -> Status {
    TORUS_ASSIGN_OR_RETURN(listener, ListenHere(address, port));
    return {};
  }));
  return listener;
}

Result<std::unique_ptr<GrpcListener>> GrpcListener::Start(Fd listener, Services services) {
  std::unique_ptr<GrpcListener> made(new GrpcListener(std::move(listener), std::move(services)));
  TORUS_RETURN_IF_ERROR(made->Begin());
  return made;
}

GrpcListener::GrpcListener(Fd listener, Services services)
    : services_(std::move(services)),
      listener_(std::move(listener)),
      stop_(eventfd(0, EFD_CLOEXEC)) {}

GrpcListener::~GrpcListener() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof(one));
    thread_.join();
  }
  listener_.Close();
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
}

Status GrpcListener::Begin() {
  grpc::ResourceQuota quota(services_.name);
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
  services_.registered(builder);
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  server_ = builder.BuildAndStart();
  if (!server_ || !stop_) return Internal("gRPC did not start ({})", services_.name);
  thread_ = std::thread([this] {
    prctl(PR_SET_NAME, services_.name.c_str());
    Accept();
  });
  return {};
}

uint16_t GrpcListener::port() const {
  sockaddr_in where{};
  socklen_t size = sizeof(where);
  getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&where), &size);
  return ntohs(where.sin_port);
}

void GrpcListener::Accept() {
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
    if (services_.admits && !services_.admits()) continue;
    // gRPC says nothing when a connection ends: a descriptor of our own tells.
    Fd own(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!own) continue;
    connections_.push_back(std::move(own));
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = socket.Release();
    acceptor_->HandleNewConnection(&connection);
  }
}

}  // namespace torus::worker
