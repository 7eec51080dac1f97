// REST for every method of the registry, derived from the HttpRule annotations: it finds the
// method, makes the request message of path, query and body, and writes the answer as JSON.
// Knows no sockets (http_session.h has them). Thread-safety: immutable once built.
#ifndef TORUS_SERVICE_GATEWAY_REST_H_
#define TORUS_SERVICE_GATEWAY_REST_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "service/gateway/path_template.h"
#include "service/gateway/registry.h"

namespace torus::gateway {

struct RestRequest {
  std::string verb;    // "GET"
  std::string target;  // path and query as they came
  std::string body;
};

struct RestResponse {
  int status = 200;
  std::string body;  // JSON
};

class Rest {
 public:
  // Requires: every rule of the registry is well-formed (they are annotations of compiled files).
  // `registry` is not owned.
  explicit Rest(const Registry& registry);

  // Replies once, on this thread or the store's.
  void Handle(const RestRequest& request, std::function<void(RestResponse)> reply) const;

 private:
  struct Route {
    std::string verb;
    PathTemplate path;
    std::string body;  // HttpRule.body: "", "*" or a field
    const Method* method;
  };
  // What a request means: the method, its message, and how to write the answer.
  struct Bound;
  Result<Bound> Bind(const RestRequest& request) const;
  std::vector<Route> routes_;
};

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_REST_H_
