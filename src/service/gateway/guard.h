// Who may be spoken to: until there are credentials, a service is its machine's own.
//
// A page in a browser can reach a loopback port by a name that resolves there (DNS rebinding) or
// from another origin, so foreign Host and Origin headers are refused, and so is an address to
// listen on that is not loopback. Pure. Thread-safety: free functions.
#ifndef TORUS_SERVICE_GATEWAY_GUARD_H_
#define TORUS_SERVICE_GATEWAY_GUARD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace torus::gateway {

struct Endpoint {
  std::string address;  // a numeric loopback address
  uint16_t port = 0;    // 0: any free one
};

// Reads "127.0.0.1:7470", "localhost:7470" or "[::1]:7470". INVALID_ARGUMENT for another form or an
// address that is not loopback.
Result<Endpoint> ParseListenAddress(std::string_view text);

// Whether a Host header or an :authority ("localhost:7470", "127.0.0.2", "[::1]:80") names this
// machine's loopback.
bool IsLoopbackHost(std::string_view host);

// PERMISSION_DENIED for a foreign Host, or an Origin ("http://evil.example") that is not loopback.
// An empty header is fine: programs send no Origin.
Status CheckHeaders(std::string_view host, std::string_view origin);

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_GUARD_H_
