#include "service/gateway/http_session.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>

#include "base/fault.h"
#include "service/gateway/guard.h"
#include "service/gateway/json.h"

namespace torus::gateway {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using namespace std::chrono_literals;

constexpr auto kRequestTime = 30s;
constexpr auto kIdleTime = 75s;
constexpr auto kRefusedTime = 5s;
constexpr auto kDrainTime = 2s;
constexpr size_t kMaxDrain = 16 << 20;
constexpr uint32_t kMaxHeader = 64 << 10;
constexpr uint64_t kMaxBody = 4 << 20;
constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

using Parser = http::request_parser<http::string_body>;
using Response = http::response<http::string_body>;

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

// Awaits Rest's answer, which may come on another thread.
asio::awaitable<RestResponse> Answer(const Rest& rest, RestRequest request) {
  const auto executor = co_await asio::this_coro::executor;
  auto start = [&rest, executor, request = std::move(request)](auto handler) {
    // std::function wants a copyable callable, and the handler can only be moved.
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    rest.Handle(request, [executor, shared](RestResponse response) {
      asio::dispatch(executor, [shared, response = std::move(response)]() mutable {
        (std::move(*shared))(std::move(response));
      });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(RestResponse)>(
      std::move(start), asio::use_awaitable);
}

// To HEAD goes what GET would get, without its body.
Response MakeResponse(RestResponse answer, bool keep_alive, bool head = false) {
  Response response(static_cast<http::status>(answer.status), 11);
  response.set(http::field::content_type, "application/json; charset=UTF-8");
  response.set("X-Content-Type-Options", "nosniff");
  response.keep_alive(keep_alive);
  response.content_length(answer.body.size());
  if (!head) response.body() = std::move(answer.body);
  return response;
}

RestResponse Failure(int status, std::string message, Code code) {
  std::string body = ErrorJson(Status(code, std::move(message)));
  return {status, std::move(body)};
}

// What to tell a client whose request could not be read; nothing if it just went away.
std::optional<RestResponse> ReadFailure(beast::error_code error) {
  if (error == http::error::header_limit)
    return Failure(431, fmt::format("The headers are larger than {} bytes.", kMaxHeader),
                   Code::kInvalidArgument);
  if (error == http::error::body_limit)
    return Failure(413, fmt::format("The request is larger than {} bytes.", kMaxBody),
                   Code::kInvalidArgument);
  if (error == beast::error::timeout)
    return Failure(408, "The request took too long to arrive.", Code::kDeadlineExceeded);
  if (error.category() == http::make_error_code(http::error::end_of_stream).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message)
    return Failure(400, "The request is not HTTP/1.1: " + error.message(), Code::kInvalidArgument);
  return std::nullopt;
}

class Session {
 public:
  Session(asio::ip::tcp::socket socket, const Rest& rest, Status allowed, std::atomic<int>& busy)
      : stream_(std::move(socket)), rest_(rest), allowed_(std::move(allowed)), busy_(busy) {}

  asio::awaitable<void> Run() {
    while (co_await ServeOne()) {
    }
    beast::error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    co_await Drain();
  }

 private:
  // Reads on for a moment: a connection that is closed while its client still sends loses the
  // answer that told it to stop.
  asio::awaitable<void> Drain() {
    stream_.expires_after(kDrainTime);
    std::array<char, 16384> sink;
    for (size_t left = kMaxDrain; left > 0;) {
      const auto [error, size] = co_await stream_.async_read_some(asio::buffer(sink), kNoThrow);
      if (error) co_return;
      left -= std::min(left, size);
    }
  }

  // Serves one request; false: close the connection.
  asio::awaitable<bool> ServeOne() {
    Parser parser;
    parser.header_limit(kMaxHeader);
    parser.body_limit(kMaxBody);
    const beast::error_code error = co_await Read(parser);
    if (error) {
      // After a time-out the stream is closed already, so the reason cannot be told.
      if (auto failure = ReadFailure(error)) {
        Response response = MakeResponse(*std::move(failure), false);
        co_await Write(std::move(response));
      }
      co_return false;
    }
    const Gauge busy(busy_);
    auto request = parser.release();
    const bool keep_alive = request.keep_alive() && allowed_.ok();
    const bool head = request.method() == http::verb::head;
    Status allowed = allowed_;
    if (allowed.ok())
      allowed = CheckHeaders(View(request[http::field::host]), View(request[http::field::origin]));
    if (allowed.ok() && request.count(http::field::host) > 1)
      allowed = InvalidArgument("The request has more than one Host header.");
    // Named variables: g++ 12 destroyed a temporary made inside a co_await twice (seen here: a
    // double free with a braced RestRequest as the argument).
    RestResponse answer;
    if (allowed.ok()) {
      RestRequest rest_request{head ? "GET" : std::string(View(request.method_string())),
                               std::string(View(request.target())), std::move(request.body())};
      answer = co_await Answer(rest_, std::move(rest_request));
    } else {
      answer = {HttpStatus(allowed.code()), ErrorJson(allowed)};
    }
    Response response = MakeResponse(std::move(answer), keep_alive, head);
    FaultPoint("gateway.reply");
    const bool written = co_await Write(std::move(response));
    FaultPoint("gateway.replied");
    co_return keep_alive ? written : false;
  }

  asio::awaitable<beast::error_code> Read(Parser& parser) {
    stream_.expires_after(first_ ? patience_ : kIdleTime);
    first_ = false;
    auto [error, size] = co_await http::async_read_header(stream_, buffer_, parser, kNoThrow);
    if (error || parser.is_done()) co_return error;  // most requests have no body
    stream_.expires_after(patience_);
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      http::response<http::empty_body> go_on(http::status::continue_, 11);
      std::tie(error, size) = co_await http::async_write(stream_, go_on, kNoThrow);
      if (error) co_return error;
    }
    std::tie(error, size) = co_await http::async_read(stream_, buffer_, parser, kNoThrow);
    co_return error;
  }

  asio::awaitable<bool> Write(Response response) {
    stream_.expires_after(patience_);
    const auto [error, size] = co_await http::async_write(stream_, response, kNoThrow);
    co_return !error;
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  const Rest& rest_;
  const Status allowed_;
  const std::chrono::seconds patience_ = allowed_.ok() ? kRequestTime : kRefusedTime;
  std::atomic<int>& busy_;
  bool first_ = true;
};

}  // namespace

asio::awaitable<void> ServeHttp(asio::ip::tcp::socket socket, const Rest& rest, Status allowed,
                                std::atomic<int>& busy) {
  Session session(std::move(socket), rest, std::move(allowed), busy);
  co_await session.Run();
}

}  // namespace torus::gateway
