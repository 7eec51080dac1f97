// The service as a client sees it: REST and JSON over HTTP/1.1.
//
// A call opens a connection, asks and closes; no proxy is ever used. Calls block, for at most the
// client's time-out. Thread-safety: a Client is immutable; calls on it may run at once.
#ifndef TORUS_CLI_CLIENT_H_
#define TORUS_CLI_CLIENT_H_

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/format.h"

namespace torus::cli {

struct Endpoint {
  std::string host;  // a name or an address, without the brackets of IPv6
  std::string port;

  std::string Authority() const;  // "127.0.0.1:7470", "[::1]:7470"
  std::string ToString() const;   // "http://127.0.0.1:7470"
};

// Reads "http://HOST[:PORT][/]"; the port is 80 where none is given. INVALID_ARGUMENT otherwise.
Result<Endpoint> ParseEndpoint(std::string_view text);

// Query parameters, encoded by the client.
using Query = std::vector<std::pair<std::string, std::string>>;

// "a b/c" -> "a%20b%2Fc".
std::string PercentEncode(std::string_view text);

// The error that a reply other than 2xx carries: its google.rpc.Status, or what its body says.
Status ReplyError(int http_status, std::string_view body);

class Client {
 public:
  // `timeout` is for one call as a whole, from the look-up of the host to the end of the reply.
  explicit Client(Endpoint endpoint, std::chrono::milliseconds timeout = std::chrono::seconds(30))
      : endpoint_(std::move(endpoint)), timeout_(timeout) {}

  const Endpoint& endpoint() const { return endpoint_; }

  // Each asks for `/v2/<name>` and returns the reply's JSON. The service's own error is returned as
  // it is; UNAVAILABLE says the address and how to start a service; INTERNAL if the reply is not
  // what the API promises.
  Result<Json> Get(std::string_view name, const Query& query = {}) const;
  Result<Json> Post(std::string_view name, const Json& body, const Query& query = {}) const;
  Result<Json> Patch(std::string_view name, const Json& body, const Query& query = {}) const;
  Result<Json> Delete(std::string_view name, const Query& query = {}) const;

  // All pages of a list, whose field in a reply is `field`; at most `limit` of them if not 0.
  Result<Json> List(std::string_view name, const std::string& field, size_t limit = 0) const;

 private:
  Result<Json> Call(std::string_view method, std::string_view name, const Query& query,
                    const Json* body) const;

  Endpoint endpoint_;
  std::chrono::milliseconds timeout_;
};

}  // namespace torus::cli

#endif  // TORUS_CLI_CLIENT_H_
