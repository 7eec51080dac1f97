// A VM's network: a pair of links, routed point to point, with one nft table that guards it.
//
//   VM (its own namespace)                         host
//   lo    169.254.169.254/32 (metadata)
//   eth0  ADDRESS/32  <---- veth pair ---->  tv<tag>  10.128.0.1/32, route ADDRESS/32
//   default via 10.128.0.1                   forwarding on; table inet torus_<tag>
//
// No bridge: two VMs share no segment, so neither can see or forge the other's frames. The table
// lets a VM reach the world as the host does (masqueraded), and the other workers of its own slice;
// it drops what goes to the host's own addresses, to other VMs, to link-local addresses (a real
// cloud's metadata server), what comes from a forged source, and all IPv6. From outside only
// answers come in, and the slice's other workers; the host itself may reach every port. The one
// exception is name service: the host's resolvers are answered from, on port 53, wherever they are.
// A resolver on a link-local address (as on a real cloud's machines) is reached through the
// gateway's.
//
// A host that did not forward before a VM needed it becomes no router for its own neighbours: table
// inet torus_router, which stays as the forwarding does, lets what comes from the links that the
// host had then go to VMs alone. (What other programs translate to their own containers passes.)
//
// The texts are pure. Plumb and Unplumb touch the host; both are idempotent.
#ifndef TORUS_WORKER_NETWORK_H_
#define TORUS_WORKER_NETWORK_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "worker/vm_paths.h"

namespace torus::worker {

inline constexpr char kGateway[] = "10.128.0.1";     // the host's end, of every VM
inline constexpr char kVmRange[] = "10.128.0.0/16";  // no other VM may be reached in it
inline constexpr char kMetadataAddress[] = "169.254.169.254";
// Where the metadata server listens in the VM's namespace; port 80 leads there, and stays free for
// the user's own servers.
inline constexpr uint16_t kMetadataPort = 8047;

struct NetworkPlan {
  std::string address;                 // IPv4
  std::vector<std::string> peers;      // the slice's other workers
  std::vector<std::string> resolvers;  // IPv4: may be asked on port 53 though they are the host's
  int64_t mtu = 1500;
  int64_t sandbox_pid = 0;  // whose network namespace it is
};

// INVALID_ARGUMENT unless the plan's addresses are IPv4 addresses.
Status CheckPlan(const NetworkPlan& plan);

// "42:01:0a:80:00:02", as Compute Engine makes it from the address.
std::string MacAddress(std::string_view address);

std::string HostLinkCommands(const VmPaths& vm, const NetworkPlan& plan);  // for `ip -batch -`
std::string VmLinkCommands(const NetworkPlan& plan);                       // the same, in the VM
std::string HostRules(const VmPaths& vm, const NetworkPlan& plan);         // for `nft -f -`
std::string VmRules();                                                     // the same, in the VM
std::string LeadPortRules(uint16_t from, uint16_t to);                     // the same, in the VM
// For a host that begins to forward and has these links.
std::string RouterRules(const std::vector<std::string>& links);

// Makes the network of a sandbox that is created and not yet started. The rules stand before the
// link does. FAILED_PRECONDITION when another link of this host has the VM's address: it is not
// taken away from there.
Status Plumb(const VmPaths& vm, const NetworkPlan& plan);

// Puts the rules of a VM that runs back if they are gone: without them it reaches the host and
// other VMs. Cheap when they stand.
Status KeepRules(const VmPaths& vm, const NetworkPlan& plan);

// Removes link, address, route and rules, whatever there is of them.
Status Unplumb(const VmPaths& vm);

// The link that this host sends packets for exactly this address to; empty: there is none.
std::string LinkOf(std::string_view address);

// Calls `function` on a thread that is in that process's network namespace; so are the programs
// that it runs and the sockets that it makes.
Status InNetworkOf(int64_t pid, const std::function<Status()>& function);

// In the network of process `pid`, a VM's: has TCP connections to port `from` reach port `to`, from
// inside and from outside; and undoes that. New connections only: those that are live on, for the
// kernel translates while any rule, such as VmRules', needs it. Both are idempotent.
Status LeadPort(int64_t pid, uint16_t from, uint16_t to);
Status LeavePort(int64_t pid, uint16_t from);

// Whether a program in the network of process `pid` listens on that TCP port.
bool HasListener(int64_t pid, uint16_t port);
// The same of the text of /proc/<pid>/net/tcp or tcp6.
bool HasListener(std::istream& sockets, uint16_t port);

// How a VM finds names.
struct Resolvers {
  std::string file;                    // its resolv.conf
  std::vector<std::string> addresses;  // the real ones, for NetworkPlan::resolvers
};

// From the host's resolv.conf, without loopback resolvers, for which `upstream` (systemd-resolved's
// own list) stands in, and with the gateway in place of link-local ones.
Resolvers UsableResolvers(std::string_view resolv_conf, std::string_view upstream);

}  // namespace torus::worker

#endif  // TORUS_WORKER_NETWORK_H_
