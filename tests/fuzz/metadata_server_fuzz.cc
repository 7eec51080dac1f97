// The metadata server, over a socket: the bytes of one connection, as a VM may send them. What it
// answers begins as HTTP does and says whose it is; and it goes on serving.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "fuzz.h"
#include "worker/metadata_server.h"

namespace torus::fuzz {
namespace {

uint16_t Start() {
  auto& server = *new worker::MetadataServer;
  worker::VmSpec vm;
  vm.set_accelerator_type("v2-8");
  vm.set_address("10.128.0.2");
  (*vm.mutable_metadata())["key"] = "value";
  server.SetTree(worker::MetadataTree(vm, 1 << 30));
  const auto port = server.ListenAt("127.0.0.1", 0);
  Check(port.has_value(), "it listens: {}", port ? "" : port.error().message());
  return *port;
}

// Sends the bytes and no more, and returns what comes back. libFuzzer's timer interrupts calls that
// wait; on Linux a connect called again goes on waiting for the same connection.
std::string Exchange(uint16_t port, std::string_view bytes) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Each from an address of its own: one has 28,000 ports, which rest for a minute after their use.
  static uint32_t count = 0;
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + count++ % (1 << 20));
  Check(bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0, "it has one");
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  Check(TEMP_FAILURE_RETRY(connect(fd.get(), to, sizeof address)) == 0, "it takes connections: {}",
        std::strerror(errno));
  (void)!TEMP_FAILURE_RETRY(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  shutdown(fd.get(), SHUT_WR);
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = TEMP_FAILURE_RETRY(recv(fd.get(), buffer, sizeof buffer, 0))) > 0;)
    answer.append(buffer, static_cast<size_t>(n));
  return answer;
}

}  // namespace

void Fuzz(std::string_view input) {
  static const uint16_t port = Start();
  const std::string answer = Exchange(port, input);
  if (answer.empty()) return;  // not a request
  Check(answer.starts_with("HTTP/1."), "it speaks HTTP: {}", answer);
  Check(answer.find("\r\nMetadata-Flavor: Google\r\n") != std::string::npos, "it says whose: {}",
        answer);
}

}  // namespace torus::fuzz
