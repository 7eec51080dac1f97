// That a call ends by its time-out, wherever the service keeps it waiting.
#include "cli/client.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstring>
#include <thread>

namespace {

using namespace std::chrono_literals;

constexpr char kSlowHost[] = "slow.invalid";
constexpr auto kSlow = 1500ms;

}  // namespace

// The system's resolver, but for a host whose name server does not answer.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  if (host && std::strcmp(host, kSlowHost) == 0) {
    std::this_thread::sleep_for(kSlow);
    return EAI_AGAIN;
  }
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(host, service, hints, result);
}

namespace torus::cli {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

TEST(Client, ASlowLookUpIsCutOff) {
  const auto begin = Clock::now();
  const auto reply = Client(Endpoint{kSlowHost, "80"}, 100ms).Get("x");
  EXPECT_LT(Clock::now() - begin, kSlow);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), Code::kUnavailable);
  EXPECT_THAT(reply.error().message(), HasSubstr("cannot reach Torus at http://slow.invalid:80"));
}

TEST(Client, ASilentServiceIsCutOff) {
  namespace asio = boost::asio;
  asio::io_context io;
  const asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  const Client client(Endpoint{"localhost", std::to_string(acceptor.local_endpoint().port())},
                      100ms);
  const auto reply = client.Get("x");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace torus::cli
