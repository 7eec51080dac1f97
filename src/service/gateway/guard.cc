#include "service/gateway/guard.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <charconv>

namespace torus::gateway {
namespace {

// "host:port", "[v6]:port" or a host alone.
struct HostPort {
  std::string_view host;
  std::string_view port;
};

HostPort Split(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return {};
    const std::string_view rest = text.substr(close + 1);
    return {text.substr(1, close - 1), rest.starts_with(':') ? rest.substr(1) : ""};
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

bool IsLoopbackName(std::string_view given) {
  std::string host(given);
  std::ranges::transform(host, host.begin(), [](unsigned char c) { return std::tolower(c); });
  if (host == "localhost" || host == "localhost.") return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

}  // namespace

Result<Endpoint> ParseListenAddress(std::string_view text) {
  auto [host, port_text] = Split(text);
  if (host == "localhost") host = "127.0.0.1";
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  uint16_t port = 0;
  const auto [end, bad] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error || port_text.empty() || bad != std::errc() ||
      end != port_text.data() + port_text.size())
    return InvalidArgument(
        "--listen {}: expected ADDRESS:PORT, such as 127.0.0.1:7470 or [::1]:7470.", text);
  if (!address.is_loopback())
    return InvalidArgument(
        "--listen {}: {} is not a loopback address. This version has no credentials yet, so anyone "
        "who reaches the port could use it; listen on 127.0.0.1 and reach it by an ssh tunnel.",
        text, host);
  return Endpoint{address.to_string(), port};
}

bool IsLoopbackHost(std::string_view host) { return IsLoopbackName(Split(host).host); }

Status CheckHeaders(std::string_view host, std::string_view origin) {
  if (!host.empty() && !IsLoopbackHost(host))
    return PermissionDenied(
        "The Host header names \"{}\"; this service answers to loopback names only (localhost, "
        "127.0.0.1, [::1]).",
        host);
  if (origin.empty()) return {};
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos || !IsLoopbackHost(origin.substr(scheme + 3)))
    return PermissionDenied("Requests from the web origin \"{}\" are refused.", origin);
  return {};
}

}  // namespace torus::gateway
