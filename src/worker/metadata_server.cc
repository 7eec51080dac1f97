#include "worker/metadata_server.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "base/text.h"
#include "worker/network.h"

namespace torus::worker {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using std::chrono::seconds;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr int kMaxConnections = 256;
constexpr int kCrowd = 64;  // above it, a silent connection is closed sooner
constexpr size_t kMaxWaiting = 64;
constexpr auto kLookAgain = std::chrono::seconds(1);
constexpr size_t kMaxInFlight = 64 << 20;  // bytes of answers that are being sent
constexpr size_t kSmall = 64 * 1024;       // an answer up to here is always sent
constexpr size_t kMaxBody = 64 * 1024;
constexpr size_t kMaxAttributes = 256 * 1024;  // all guest attributes of a VM together
constexpr auto kRequestTime = seconds(10);
constexpr auto kIdleTime = seconds(60);
constexpr auto kLongestWait = seconds(3600);
constexpr std::string_view kGuest = "instance/guest-attributes/";

std::string Etag(std::string_view text) { return fmt::format("{:016x}", Fnv1a(text)); }

bool IsAttributeName(std::string_view name) {
  return !name.empty() && name.size() <= 128 && name[0] != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

// "namespace/key" of a path below guest-attributes; empty unless it is one.
std::string AttributeOf(std::string_view path) {
  if (!path.starts_with(kGuest)) return {};
  path.remove_prefix(kGuest.size());
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos || !IsAttributeName(path.substr(0, slash)) ||
      !IsAttributeName(path.substr(slash + 1)))
    return {};
  return std::string(path);
}

Response Plain(int status, std::string body) {
  Response response(static_cast<http::status>(status), 11);
  response.set(http::field::content_type, "text/plain");
  response.body() = std::move(body);
  return response;
}

bool IsText(const std::string& bytes) {
  try {
    (void)nlohmann::json(bytes).dump();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  return true;
}

// Whether the client has hung up, also behind what it has sent besides, which is left alone.
bool HasHungUp(int fd) {
  pollfd client{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&client, 1, 0) > 0;
}

// The number that a query has; `otherwise` when it has none.
int64_t QueryNumber(const MetadataRequest& request, const char* name, int64_t otherwise) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return otherwise;
  try {
    return std::stoll(found->second);
  } catch (const std::exception&) {
    return otherwise;
  }
}

}  // namespace

class MetadataServer::Impl {
 public:
  Impl(std::shared_ptr<const MetadataNode> tree, GuestAttributes attributes,
       const std::function<void(const GuestAttributes&)>& changed)
      : changed_(changed), tree_(std::move(tree)), attributes_(std::move(attributes)) {}

  ~Impl() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status Bind(const std::string& address, uint16_t port) {
    boost::system::error_code error;
    const tcp::endpoint endpoint(asio::ip::make_address(address, error), port);
    if (!error) acceptor_.open(tcp::v4(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) return {};
    return Internal("the metadata server cannot listen on {}:{}: {}", address, port,
                    error.message());
  }

  uint16_t port() const { return acceptor_.local_endpoint().port(); }

  void Run() {
    asio::co_spawn(io_, Accept(), asio::detached);
    thread_ = std::thread([this] {
      prctl(PR_SET_NAME, "metadata");
      // A VM that asks without end has the host's time for it, but after the host's own processes.
      (void)!nice(10);
      io_.run();
    });
  }

  void SetTree(std::shared_ptr<const MetadataNode> tree) {
    {
      const MutexLock lock(mutex_);
      tree_ = std::move(tree);
    }
    asio::post(io_, [this] { Wake(/*guest=*/false); });
  }
  void SetGuestAttributes(GuestAttributes attributes) {
    {
      const MutexLock lock(mutex_);
      attributes_ = std::move(attributes);
    }
    asio::post(io_, [this] { Wake(/*guest=*/true); });
  }
  GuestAttributes guest_attributes() {
    const MutexLock lock(mutex_);
    return attributes_;
  }

 private:
  // A request that is held until something changes. All of it is the thread's own.
  struct Waiter {
    Waiter(Impl& owner, bool of_guest) : impl(owner), timer(owner.io_), guest(of_guest) {
      impl.waiting_.insert(this);
    }
    ~Waiter() { impl.waiting_.erase(this); }
    Waiter(const Waiter&) = delete;
    Impl& impl;
    asio::steady_timer timer;
    const bool guest;     // it waits for a guest attribute
    bool watched = true;  // whether we are told when the client hangs up
    bool gone = false;
  };

  // An answer's bytes while they are sent.
  struct Load {
    Load(size_t& all_bytes, size_t own) : all(all_bytes), bytes(own) { all += bytes; }
    ~Load() { all -= bytes; }
    Load(const Load&) = delete;
    size_t& all;
    const size_t bytes;
  };

  void Wake(bool guest) {
    etags_.clear();
    for (Waiter* waiter : waiting_)
      if (waiter->guest == guest) waiter->timer.cancel();
  }

  asio::awaitable<void> Accept() {
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(kAwait);
      if (error == asio::error::operation_aborted) co_return;
      if (error) {
        // Out of descriptors: no busy loop.
        asio::steady_timer pause(io_, std::chrono::milliseconds(100));
        co_await pause.async_wait(kAwait);
        continue;
      }
      if (connections_ >= kMaxConnections) continue;  // the socket closes
      ++connections_;
      asio::co_spawn(io_, Serve(beast::tcp_stream(std::move(socket))),
                     [this](const std::exception_ptr&) { --connections_; });
    }
  }

  asio::awaitable<void> Serve(beast::tcp_stream stream) {
    beast::flat_buffer buffer(kMaxBody + 16 * 1024);
    for (bool first = true;; first = false) {
      http::request_parser<http::string_body> parser;
      parser.body_limit(kMaxBody);
      const bool patient = !first && connections_ <= kCrowd;
      stream.expires_after(patient ? std::chrono::seconds(kIdleTime) : kRequestTime);
      const auto [read_error, bytes] = co_await http::async_read(stream, buffer, parser, kAwait);
      Response response;
      bool keep_alive = false;
      if (read_error == http::error::body_limit || read_error == http::error::header_limit) {
        response = Plain(413, "the request is too large\n");
      } else if (read_error) {
        co_return;
      } else {
        keep_alive = parser.keep_alive();
        response = co_await Handle(parser.get(), stream.socket());
      }
      if (response.body().size() > kSmall && in_flight_ > 0 &&
          in_flight_ + response.body().size() > kMaxInFlight)
        response = Plain(503, "too much is being sent already; ask again later\n");
      const Load load(in_flight_, response.body().size());
      response.set("Metadata-Flavor", "Google");
      response.set(http::field::server, "Metadata Server for VM");
      response.keep_alive(keep_alive);
      response.prepare_payload();
      if (parser.get().method() == http::verb::head) response.body().clear();
      stream.expires_after(kRequestTime);
      const auto [write_error, written] = co_await http::async_write(stream, response, kAwait);
      if (write_error || !keep_alive) co_return;
    }
  }

  asio::awaitable<Response> Handle(const Request& request, tcp::socket& socket) {
    if (request.count("X-Forwarded-For") != 0)
      co_return Plain(403, "a request with X-Forwarded-For is refused\n");
    const std::string_view target(request.target().data(), request.target().size());
    const MetadataRequest metadata = ParseTarget(target);
    if (metadata.path == "/") co_return Plain(200, "computeMetadata/\n");
    const auto flavor = request["Metadata-Flavor"];
    // The TPU's API is no metadata, and its clients know no flavor.
    if (!metadata.path.starts_with('/') &&
        std::string_view(flavor.data(), flavor.size()) != "Google")
      co_return Plain(403, "missing the required header Metadata-Flavor: Google\n");
    if (request.method() == http::verb::put || request.method() == http::verb::delete_)
      co_return Change(request, metadata);
    if (request.method() != http::verb::get && request.method() != http::verb::head)
      co_return Plain(405, "only GET; PUT and DELETE for guest attributes\n");
    if (metadata.Flag("wait_for_change")) {
      if (waiting_.size() >= kMaxWaiting)
        co_return Plain(503, "too many requests wait for a change; ask again later\n");
      co_await Wait(metadata, socket);
    }
    MetadataAnswer answer = Look(metadata);
    Response response(static_cast<http::status>(answer.status), 11);
    response.set(http::field::content_type, answer.content_type);
    response.set(http::field::etag, Etag(answer.body));
    if (!answer.location.empty()) response.set(http::field::location, answer.location);
    response.body() = std::move(answer.body);
    co_return response;
  }

  // Until the answer is another than the client knows, its time is over, or it hangs up.
  asio::awaitable<void> Wait(const MetadataRequest& request, tcp::socket& socket) {
    const auto known = request.query.find("last_etag");
    const std::string etag = known == request.query.end() ? EtagOf(request) : known->second;
    const auto limit = std::clamp<int64_t>(QueryNumber(request, "timeout_sec", 3600), 0,
                                           std::chrono::seconds(kLongestWait).count());
    const auto deadline = std::chrono::steady_clock::now() + seconds(limit);
    if (limit == 0 || EtagOf(request) != etag) co_return;
    const auto waiter = std::make_shared<Waiter>(*this, request.path.starts_with(kGuest));
    // Cancelled below, so the socket is there when this runs to the end.
    socket.async_wait(tcp::socket::wait_read, [weak = std::weak_ptr(waiter)](const auto& error) {
      const auto held = weak.lock();
      if (error || !held) return;
      held->watched = false;
      held->timer.cancel();
    });
    while (!waiter->gone && EtagOf(request) == etag &&
           std::chrono::steady_clock::now() < deadline) {
      // What a client sends while it waits hides that it hangs up: then one looks now and then.
      waiter->timer.expires_at(
          waiter->watched ? deadline
                          : std::min(deadline, std::chrono::steady_clock::now() + kLookAgain));
      co_await waiter->timer.async_wait(kAwait);
      if (!waiter->watched) waiter->gone = HasHungUp(socket.native_handle());
    }
    boost::system::error_code ignored;
    socket.cancel(ignored);
  }

  // The tag of what would be answered now. Those who wait mostly wait for the same.
  const std::string& EtagOf(const MetadataRequest& request) {
    const auto alt = request.query.find("alt");
    const std::string key = fmt::format("{}?{}{}", request.path, request.Flag("recursive"),
                                        alt == request.query.end() ? "" : "&" + alt->second);
    const auto found = etags_.find(key);
    if (found != etags_.end()) return found->second;
    if (etags_.size() >= 2 * kMaxWaiting) etags_.clear();
    return etags_[key] = Etag(Look(request).body);
  }

  MetadataAnswer Look(const MetadataRequest& request) {
    if (!request.path.starts_with(kGuest)) return Answer(*tree(), request);
    MetadataNode guest;
    for (const auto& [name, value] : guest_attributes()) {
      const size_t slash = name.find('/');
      MetadataNode& space = guest.children[name.substr(0, slash)];
      guest.verbatim = space.verbatim = true;
      space.children[name.substr(slash + 1)] = MetadataNode::Leaf(value);
    }
    MetadataRequest below = request;
    below.path.erase(0, kGuest.size());
    return Answer(guest, below);
  }

  std::shared_ptr<const MetadataNode> tree() {
    const MutexLock lock(mutex_);
    return tree_;
  }

  Response Change(const Request& request, const MetadataRequest& metadata) {
    const std::string name = AttributeOf(metadata.path);
    if (name.empty()) return Plain(404, "only guest-attributes/NAMESPACE/KEY can be written\n");
    if (!IsText(request.body())) return Plain(400, "a guest attribute is text in UTF-8\n");
    GuestAttributes attributes = guest_attributes();
    attributes.erase(name);
    if (request.method() == http::verb::put) attributes[name] = request.body();
    size_t size = 0;
    for (const auto& [key, value] : attributes) size += key.size() + value.size();
    if (size > kMaxAttributes) return Plain(413, "the guest attributes are too large\n");
    SetGuestAttributes(attributes);
    if (changed_) changed_(attributes);
    return Plain(200, "");
  }

  const std::function<void(const GuestAttributes&)>& changed_;
  // The thread's own; they outlive io_, whose end ends the connections.
  int connections_ = 0;
  size_t in_flight_ = 0;
  std::set<Waiter*> waiting_;
  std::map<std::string, std::string> etags_;  // of what is waited for, since the last change
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  std::thread thread_;
  Mutex mutex_;
  std::shared_ptr<const MetadataNode> tree_ TORUS_GUARDED_BY(mutex_);
  GuestAttributes attributes_ TORUS_GUARDED_BY(mutex_);
};

MetadataServer::MetadataServer(std::function<void(const GuestAttributes&)> changed)
    : changed_(std::move(changed)), tree_(std::make_shared<MetadataNode>()) {}

MetadataServer::~MetadataServer() { Stop(); }

Status MetadataServer::Listen(int64_t pid) {
  Stop();
  return InNetworkOf(pid, [&] {
    const auto port = ListenAt(kMetadataAddress, kMetadataPort);
    return port ? Status() : port.error();
  });
}

Result<uint16_t> MetadataServer::ListenAt(const std::string& address, uint16_t port) {
  Stop();
  auto impl = std::make_unique<Impl>(tree_, attributes_, changed_);
  TORUS_RETURN_IF_ERROR(impl->Bind(address, port));
  impl->Run();
  impl_ = std::move(impl);
  return impl_->port();
}

void MetadataServer::SetTree(MetadataNode tree) {
  tree_ = std::make_shared<const MetadataNode>(std::move(tree));
  if (impl_) impl_->SetTree(tree_);
}

void MetadataServer::SetGuestAttributes(GuestAttributes attributes) {
  attributes_ = std::move(attributes);
  if (impl_) impl_->SetGuestAttributes(attributes_);
}

void MetadataServer::Stop() {
  if (impl_) attributes_ = impl_->guest_attributes();
  impl_.reset();
}

}  // namespace torus::worker
