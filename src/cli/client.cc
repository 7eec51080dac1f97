// One deadline covers a whole call. A look-up cannot be interrupted, so it has a thread of its own,
// which is left alone once the deadline has passed; the rest is a coroutine.
#include "cli/client.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "cli/version.h"

namespace torus::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

constexpr size_t kMaxReplyBytes = size_t{64} << 20;
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

using Clock = std::chrono::steady_clock;
using HttpRequest = http::request<http::string_body>;
using HttpReply = http::response<http::string_body>;

Error Unreachable(const Endpoint& endpoint, const boost::system::error_code& error) {
  return Unavailable(
      "cannot reach Torus at {}: {}. Start it with `torus serve`, or give its address with "
      "--endpoint or TORUS_ENDPOINT",
      endpoint.ToString(), error.message());
}

// The addresses of an endpoint.
Result<tcp::resolver::results_type> Resolve(const Endpoint& endpoint, Clock::time_point deadline) {
  struct Answer {
    boost::system::error_code error;
    tcp::resolver::results_type addresses;
  };
  std::promise<Answer> promise;
  std::future<Answer> future = promise.get_future();
  std::thread([endpoint, promise = std::move(promise)]() mutable {
    asio::io_context io(1);
    Answer answer;
    answer.addresses = tcp::resolver(io).resolve(endpoint.host, endpoint.port, answer.error);
    promise.set_value(std::move(answer));
  }).detach();
  if (future.wait_until(deadline) != std::future_status::ready)
    return Unreachable(endpoint, asio::error::timed_out);
  Answer answer = future.get();
  if (answer.error) return Unreachable(endpoint, answer.error);
  return std::move(answer.addresses);
}

asio::awaitable<Result<HttpReply>> Exchange(const Endpoint& endpoint,
                                            const tcp::resolver::results_type& addresses,
                                            HttpRequest& request, Clock::time_point deadline) {
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  stream.expires_at(deadline);
  auto [connect_error, address] = co_await stream.async_connect(addresses, kAsTuple);
  if (connect_error) co_return Unreachable(endpoint, connect_error);
  auto [write_error, written] = co_await http::async_write(stream, request, kAsTuple);
  if (write_error) co_return Unreachable(endpoint, write_error);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxReplyBytes);
  auto [read_error, read] = co_await http::async_read(stream, buffer, parser, kAsTuple);
  if (read_error) co_return Unreachable(endpoint, read_error);
  co_return parser.release();
}

// Runs one exchange to its end.
Result<HttpReply> RunExchange(const Endpoint& endpoint, HttpRequest& request,
                              std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  TORUS_ASSIGN_OR_RETURN(const auto addresses, Resolve(endpoint, deadline));
  asio::io_context io(1);
  std::optional<Result<HttpReply>> reply;
  asio::co_spawn(io, Exchange(endpoint, addresses, request, deadline),
                 [&](std::exception_ptr, Result<HttpReply> result) { reply = std::move(result); });
  try {
    io.run();
  } catch (const std::exception& error) {
    return Internal("the call to {} failed: {}", endpoint.ToString(), error.what());
  }
  return *std::move(reply);
}

std::string Target(std::string_view name, const Query& query) {
  std::string target = "/v2/" + std::string(name);
  char separator = '?';
  for (const auto& [key, value] : query) {
    target += separator + PercentEncode(key) + "=" + PercentEncode(value);
    separator = '&';
  }
  return target;
}

// The names of a resource or a method in a path: all but "/" and ":" is encoded.
std::string EncodeName(std::string_view name) {
  std::string encoded;
  size_t begin = 0;
  for (size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && name[i] != '/' && name[i] != ':') continue;
    encoded += PercentEncode(name.substr(begin, i - begin));
    if (i < name.size()) encoded += name[i];
    begin = i + 1;
  }
  return encoded;
}

Code CodeFromName(std::string_view name) {
  for (int code = 1; code <= static_cast<int>(Code::kUnauthenticated); ++code) {
    if (CodeName(static_cast<Code>(code)) == name) return static_cast<Code>(code);
  }
  return Code::kUnknown;
}

}  // namespace

std::string Endpoint::Authority() const {
  return host.find(':') == host.npos ? host + ":" + port : "[" + host + "]:" + port;
}

std::string Endpoint::ToString() const { return "http://" + Authority(); }

Result<Endpoint> ParseEndpoint(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  const auto wrong = [&] {
    return InvalidArgument("\"{}\" is not an address; write one such as http://127.0.0.1:7470",
                           text);
  };
  if (!text.starts_with(kScheme)) return wrong();
  std::string_view rest = text.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty() || rest.find_first_of("/?#@ ") != rest.npos) return wrong();
  const size_t host_end = rest.starts_with('[') ? rest.find(']') : rest.find(':');
  std::string_view host = rest.substr(0, host_end);
  std::string_view after = host_end == rest.npos ? std::string_view() : rest.substr(host_end);
  if (host.starts_with('[')) {
    if (host_end == rest.npos) return wrong();
    host.remove_prefix(1);
    after.remove_prefix(1);
  }
  int port = 80;
  if (!after.empty()) {
    after.remove_prefix(1);
    const char* const end = after.data() + after.size();
    const auto [next, error] = std::from_chars(after.data(), end, port);
    if (error != std::errc() || next != end || port < 1 || port > 65535) return wrong();
  }
  if (host.empty()) return wrong();
  return Endpoint{std::string(host), std::to_string(port)};
}

std::string PercentEncode(std::string_view text) {
  constexpr std::string_view kPlain = "-._~";
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || kPlain.find(c) != kPlain.npos) {
      encoded += c;
    } else {
      encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return encoded;
}

Status ReplyError(int http_status, std::string_view body) {
  const Json reply = Json::parse(body, nullptr, false);
  if (reply.is_object() && reply.contains("error") && reply["error"].is_object()) {
    const Json& error = reply["error"];
    const Json status = error.value("status", Json());
    const Json message = error.value("message", Json());
    if (status.is_string() && message.is_string())
      return Status(CodeFromName(status.get<std::string>()), message.get<std::string>());
  }
  return Status(Code::kInternal,
                fmt::format("the service answered HTTP {} and no error of the API: {}", http_status,
                            body.substr(0, std::min(body.find('\n'), size_t{200}))));
}

Result<Json> Client::Call(std::string_view method, std::string_view name, const Query& query,
                          const Json* body) const {
  HttpRequest request(http::string_to_verb(std::string(method)), Target(EncodeName(name), query),
                      11);
  request.set(http::field::host, endpoint_.Authority());
  request.set(http::field::user_agent, std::string("torus/") + Version());
  request.set(http::field::accept, "application/json");
  request.keep_alive(false);
  if (body) {
    request.set(http::field::content_type, "application/json");
    request.body() = body->dump(-1, ' ', false, Json::error_handler_t::replace);
    request.prepare_payload();
  }
  TORUS_ASSIGN_OR_RETURN(const HttpReply reply, RunExchange(endpoint_, request, timeout_));
  if (reply.result_int() / 100 != 2) return Error(ReplyError(reply.result_int(), reply.body()));
  Json json = Json::parse(reply.body(), nullptr, false);
  if (!json.is_object())
    return Internal("{} answered something that is not a JSON object; is it Torus?",
                    endpoint_.ToString());
  return json;
}

Result<Json> Client::Get(std::string_view name, const Query& query) const {
  return Call("GET", name, query, nullptr);
}

Result<Json> Client::Post(std::string_view name, const Json& body, const Query& query) const {
  return Call("POST", name, query, &body);
}

Result<Json> Client::Patch(std::string_view name, const Json& body, const Query& query) const {
  return Call("PATCH", name, query, &body);
}

Result<Json> Client::Delete(std::string_view name, const Query& query) const {
  return Call("DELETE", name, query, nullptr);
}

Result<Json> Client::List(std::string_view name, const std::string& field, size_t limit) const {
  Json all = Json::array();
  std::string token;
  do {
    Query query;
    if (!token.empty()) query.emplace_back("pageToken", token);
    TORUS_ASSIGN_OR_RETURN(const Json page, Get(name, query));
    for (const Json& each : page.value(field, Json::array())) {
      if (limit != 0 && all.size() == limit) return all;
      all.push_back(each);
    }
    token = page.value("nextPageToken", "");
  } while (!token.empty());
  return all;
}

}  // namespace torus::cli
