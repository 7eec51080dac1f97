#include "service/gateway/gateway.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <thread>

#include "base/mutex.h"
#include "service/gateway/grpc_service.h"
#include "service/gateway/http_session.h"
#include "service/gateway/rest.h"

namespace torus::gateway {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr auto kFirstBytesTime = 10s;
constexpr int kThreads = 2;
constexpr int kMaxHttpConnections = 4096;
// Of users who are refused, all together: however many they try, the owner's find room.
constexpr int kMaxRefused = 64;
constexpr std::string_view kPreface = "PRI";

}  // namespace

class Gateway::Impl {
 public:
  Impl(const Endpoint& endpoint, PeerGuard guard, const Registry& registry)
      : endpoint_(endpoint),
        guard_(std::move(guard)),
        registry_(registry),
        rest_(registry),
        acceptor_(context_) {}

  Status Listen() {
    boost::system::error_code error;
    const tcp::endpoint at(asio::ip::make_address(endpoint_.address), endpoint_.port);
    acceptor_.open(at.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(at, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      return FailedPrecondition(
          "Cannot listen on {}:{}: {}. Stop what uses the port, or choose another with --listen.",
          endpoint_.address, endpoint_.port, error.message());
    endpoint_.port = acceptor_.local_endpoint().port();
    return {};
  }

  Status Serve() {
    TORUS_ASSIGN_OR_RETURN(grpc_, GrpcServer::Start(registry_));
    asio::co_spawn(context_, Accept(), asio::detached);
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { context_.run(); });
    return {};
  }

  void Stop(int seconds) {
    if (stopped_) return;
    stopped_ = true;
    asio::post(context_, [this] {
      boost::system::error_code ignored;
      acceptor_.close(ignored);
    });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    const auto grpc_deadline = std::chrono::system_clock::now() + std::chrono::seconds(seconds);
    if (grpc_) grpc_->Shutdown(grpc_deadline);
    while (busy_ > 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(10ms);
    context_.stop();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    if (grpc_) grpc_->Wait();
    const MutexLock lock(refusing_mutex_);
    if (!refusing_) return;
    refusing_->Shutdown(grpc_deadline);
    refusing_->Wait();
  }

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  asio::awaitable<void> Accept() {
    while (acceptor_.is_open()) {
      // Each connection on a strand of its own: its timer and its reads may not run at once.
      auto [error, socket] = co_await acceptor_.async_accept(asio::make_strand(context_), kNoThrow);
      if (error == asio::error::operation_aborted) co_return;
      if (error) {
        // Out of descriptors, most likely: wait for some to be closed.
        spdlog::warn("cannot accept a connection: {}", error.message());
        asio::steady_timer pause(context_, 100ms);
        co_await pause.async_wait(kNoThrow);
        continue;
      }
      const auto executor = socket.get_executor();
      Status allowed = guard_.Check(socket.native_handle());
      if (allowed.ok()) {
        asio::co_spawn(executor, TellApart(std::move(socket)), asio::detached);
      } else if (refused_ < kMaxRefused) {
        asio::co_spawn(
            executor,
            Refuse(std::move(socket), std::move(allowed), std::make_unique<Gauge>(refused_)),
            asio::detached);
      }
    }
  }

  asio::awaitable<void> TellApart(tcp::socket socket) {
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const bool is_grpc = co_await HasPreface(socket);
    if (!socket.is_open()) co_return;
    if (is_grpc) {
      grpc_->Take(socket.release());
      co_return;
    }
    if (connections_ >= kMaxHttpConnections) co_return;
    const Gauge connection(connections_);
    co_await ServeHttp(std::move(socket), rest_, {}, busy_);
  }

  // Tells another user why not, by either protocol. `held` counts the connection until it is over.
  asio::awaitable<void> Refuse(tcp::socket socket, Status refusal,
                               [[maybe_unused]] std::unique_ptr<Gauge> held) {
    const bool is_grpc = co_await HasPreface(socket);
    if (!socket.is_open()) co_return;
    if (!is_grpc) {
      co_await ServeHttp(std::move(socket), rest_, std::move(refusal), busy_);
      co_return;
    }
    GrpcServer* server = Refusing();
    if (server == nullptr) co_return;
    asio::steady_timer over(socket.get_executor(), GrpcServer::kRefusalTime);
    server->Take(socket.release());
    co_await over.async_wait(kNoThrow);
  }

  // The gRPC server that tells others than the service's user why not: few machines need it, so it
  // is made for the first of them.
  GrpcServer* Refusing() {
    const MutexLock lock(refusing_mutex_);
    if (!refusing_) {
      auto server = GrpcServer::Start(registry_, guard_.refusal());
      if (server) refusing_ = *std::move(server);
    }
    return refusing_.get();
  }

  // Peeks at the first bytes. Closes the socket of a client that sends none in time.
  asio::awaitable<bool> HasPreface(tcp::socket& socket) {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer deadline(socket.get_executor(), kFirstBytesTime);
    char bytes[kPreface.size()];
    for (;;) {
      const auto first = co_await (socket.async_wait(tcp::socket::wait_read, kNoThrow) ||
                                   deadline.async_wait(kNoThrow));
      if (first.index() != 0 || std::get<0>(std::get<0>(first))) break;
      const ssize_t size =
          recv(socket.native_handle(), bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
      if (size < 0 && errno == EAGAIN) continue;  // woken by an event of the descriptor's last user
      if (size <= 0) break;
      const std::string_view seen(bytes, static_cast<size_t>(size));
      if (!kPreface.starts_with(seen)) co_return false;
      if (seen.size() == kPreface.size()) co_return true;
      // A part of the preface: the socket stays readable, so wait a little for the rest.
      asio::steady_timer pause(socket.get_executor(), 5ms);
      co_await pause.async_wait(kNoThrow);
      if (deadline.expiry() <= std::chrono::steady_clock::now()) break;
    }
    boost::system::error_code ignored;
    socket.close(ignored);
    co_return false;
  }

  Endpoint endpoint_;
  const PeerGuard guard_;
  const Registry& registry_;
  Rest rest_;
  asio::io_context context_{kThreads};
  tcp::acceptor acceptor_;
  std::unique_ptr<GrpcServer> grpc_;
  Mutex refusing_mutex_;
  std::unique_ptr<GrpcServer> refusing_ TORUS_GUARDED_BY(refusing_mutex_);
  std::vector<std::thread> threads_;
  std::atomic<int> connections_ = 0;
  std::atomic<int> refused_ = 0;
  std::atomic<int> busy_ = 0;
  bool stopped_ = false;
};

Gateway::Gateway(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Gateway::~Gateway() { impl_->Stop(0); }
const Endpoint& Gateway::endpoint() const { return impl_->endpoint(); }
void Gateway::Stop(int seconds) { impl_->Stop(seconds); }

Result<std::unique_ptr<Gateway>> Gateway::Start(const Endpoint& endpoint, PeerGuard guard,
                                                const Registry& registry) {
  auto impl = std::make_unique<Impl>(endpoint, std::move(guard), registry);
  TORUS_RETURN_IF_ERROR(impl->Listen());
  TORUS_RETURN_IF_ERROR(impl->Serve());
  return std::unique_ptr<Gateway>(new Gateway(std::move(impl)));
}

}  // namespace torus::gateway
