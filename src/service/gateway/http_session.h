// One HTTP/1.1 connection: Boost.Beast reads and writes, Rest answers.
//
// Limits: 64 KiB of headers, 4 MiB of body (gRPC's default too), 30 s for a client to send a
// request, 75 s of idling between two. One who is refused has 5 s and one request.
#ifndef TORUS_SERVICE_GATEWAY_HTTP_SESSION_H_
#define TORUS_SERVICE_GATEWAY_HTTP_SESSION_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "service/gateway/rest.h"

namespace torus::gateway {

// Counts one thing while it lives.
class Gauge {
 public:
  explicit Gauge(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Gauge() { --count_; }
  Gauge(const Gauge&) = delete;

 private:
  std::atomic<int>& count_;
};

// Serves the connection until it ends; `busy` counts it while it answers a request. `rest` and
// `busy` outlive it. Unless `allowed` is OK, it is the answer to every request.
boost::asio::awaitable<void> ServeHttp(boost::asio::ip::tcp::socket socket, const Rest& rest,
                                       Status allowed, std::atomic<int>& busy);

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_HTTP_SESSION_H_
