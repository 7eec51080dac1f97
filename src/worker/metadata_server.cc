#include "worker/metadata_server.h"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>

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
#include <mutex>
#include <thread>

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
constexpr size_t kMaxBody = 64 * 1024;
constexpr size_t kMaxAttributes = 256 * 1024;  // all guest attributes of a VM together
constexpr auto kRequestTime = seconds(10);
constexpr auto kIdleTime = seconds(60);
constexpr auto kLongestWait = seconds(3600);
constexpr std::string_view kGuest = "instance/guest-attributes/";

std::string Etag(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

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
  Impl(MetadataNode tree, GuestAttributes attributes,
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
      io_.run();
    });
  }

  void SetTree(MetadataNode tree) {
    const std::lock_guard lock(mutex_);
    tree_ = std::move(tree);
  }
  void SetGuestAttributes(GuestAttributes attributes) {
    const std::lock_guard lock(mutex_);
    attributes_ = std::move(attributes);
  }
  GuestAttributes guest_attributes() {
    const std::lock_guard lock(mutex_);
    return attributes_;
  }

 private:
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
        response = co_await Handle(parser.get());
      }
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

  asio::awaitable<Response> Handle(const Request& request) {
    if (request.count("X-Forwarded-For") != 0)
      co_return Plain(403, "a request with X-Forwarded-For is refused\n");
    const std::string_view target(request.target().data(), request.target().size());
    const MetadataRequest metadata = ParseTarget(target);
    if (metadata.path == "/") co_return Plain(200, "computeMetadata/\n");
    const auto flavor = request["Metadata-Flavor"];
    if (std::string_view(flavor.data(), flavor.size()) != "Google")
      co_return Plain(403, "missing the required header Metadata-Flavor: Google\n");
    if (request.method() == http::verb::put || request.method() == http::verb::delete_)
      co_return Change(request, metadata);
    if (request.method() != http::verb::get && request.method() != http::verb::head)
      co_return Plain(405, "only GET; PUT and DELETE for guest attributes\n");
    MetadataAnswer answer = Look(metadata);
    if (metadata.Flag("wait_for_change")) answer = co_await Wait(metadata, std::move(answer));
    Response response(static_cast<http::status>(answer.status), 11);
    response.set(http::field::content_type, answer.content_type);
    response.set(http::field::etag, Etag(answer.body));
    if (!answer.location.empty()) response.set(http::field::location, answer.location);
    response.body() = std::move(answer.body);
    co_return response;
  }

  // Until the answer is another than the client knows, or its time is over.
  asio::awaitable<MetadataAnswer> Wait(const MetadataRequest& request, MetadataAnswer answer) {
    const auto known = request.query.find("last_etag");
    const std::string etag = known == request.query.end() ? Etag(answer.body) : known->second;
    const auto limit = std::clamp<int64_t>(QueryNumber(request, "timeout_sec", 3600), 0,
                                           std::chrono::seconds(kLongestWait).count());
    const auto deadline = std::chrono::steady_clock::now() + seconds(limit);
    while (Etag(answer.body) == etag && std::chrono::steady_clock::now() < deadline) {
      asio::steady_timer pause(io_, std::chrono::milliseconds(200));
      co_await pause.async_wait(kAwait);
      answer = Look(request);
    }
    co_return answer;
  }

  MetadataAnswer Look(const MetadataRequest& request) {
    const std::lock_guard lock(mutex_);
    if (!request.path.starts_with(kGuest)) return Answer(tree_, request);
    MetadataNode guest;
    for (const auto& [name, value] : attributes_) {
      const size_t slash = name.find('/');
      MetadataNode& space = guest.children[name.substr(0, slash)];
      guest.verbatim = space.verbatim = true;
      space.children[name.substr(slash + 1)] = MetadataNode::Leaf(value);
    }
    MetadataRequest below = request;
    below.path.erase(0, kGuest.size());
    return Answer(guest, below);
  }

  Response Change(const Request& request, const MetadataRequest& metadata) {
    const std::string name = AttributeOf(metadata.path);
    if (name.empty()) return Plain(404, "only guest-attributes/NAMESPACE/KEY can be written\n");
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
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  std::thread thread_;
  int connections_ = 0;  // the thread's own
  std::mutex mutex_;
  MetadataNode tree_;           // guarded by mutex_
  GuestAttributes attributes_;  // guarded by mutex_
};

MetadataServer::MetadataServer(std::function<void(const GuestAttributes&)> changed)
    : changed_(std::move(changed)) {}

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
  tree_ = std::move(tree);
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
