// JSON names that upstream's discovery documents know and its .proto files lack (as of 2026-08).
// A request may carry them, so they are accepted; they have no effect yet.
// Source: the documents in PyPI's google-api-python-client 2.202 (tpu v2), compared with npm's
// google-proto-files 5.0.3; tests/service/test_discovery_names.py makes the comparison again.
#ifndef TORUS_SERVICE_GATEWAY_DISCOVERY_NAMES_H_
#define TORUS_SERVICE_GATEWAY_DISCOVERY_NAMES_H_

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace torus::gateway {

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kDiscoveryNames = {{
    {"google.cloud.tpu.v2.Node", "bootDiskConfig"},
    {"google.cloud.tpu.v2.Node", "protectionTier"},
    {"google.cloud.tpu.v2.Node", "upcomingMaintenance"},
}};

constexpr bool IsDiscoveryName(std::string_view message, std::string_view name) {
  return std::ranges::find(kDiscoveryNames, std::pair(message, name)) != kDiscoveryNames.end();
}

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_DISCOVERY_NAMES_H_
