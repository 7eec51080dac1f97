#include "service/gateway/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::gateway {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddress, TakesLoopbackOnly) {
  EXPECT_EQ(ParseListenAddress("127.0.0.1:7470")->port, 7470);
  EXPECT_EQ(ParseListenAddress("localhost:0")->address, "127.0.0.1");
  EXPECT_EQ(ParseListenAddress("[::1]:80")->address, "::1");
  EXPECT_TRUE(ParseListenAddress("127.9.9.9:1"));
  for (const char* text : {"0.0.0.0:7470", "10.0.0.1:7470", "[::]:7470", "8.8.8.8:1"})
    EXPECT_THAT(ParseListenAddress(text).error().message(), HasSubstr("not a loopback")) << text;
  for (const char* text : {"", "127.0.0.1", ":7470", "example.com:1", "127.0.0.1:70000",
                           "127.0.0.1:x", "127.0.0.1:", "[::1:80"})
    EXPECT_FALSE(ParseListenAddress(text)) << text;
}

TEST(Headers, ForeignOnesAreRefused) {
  for (const char* host : {"", "localhost", "LocalHost:80", "localhost:7470", "127.0.0.1:7470",
                           "127.3.2.1", "[::1]:7470"})
    EXPECT_TRUE(CheckHeaders(host, "").ok()) << host;
  for (const char* host : {"evil.example", "evil.example:7470", "localhost.evil.example",
                           "127.0.0.1.evil.example", "192.168.0.1", "[fe80::1]:7470", "[::1"})
    EXPECT_EQ(CheckHeaders(host, "").code(), Code::kPermissionDenied) << host;
  EXPECT_TRUE(CheckHeaders("localhost", "http://localhost:7470").ok());
  EXPECT_TRUE(CheckHeaders("localhost", "https://127.0.0.1").ok());
  for (const char* origin : {"http://evil.example", "null", "https://localhost.evil.example"})
    EXPECT_EQ(CheckHeaders("localhost", origin).code(), Code::kPermissionDenied) << origin;
}

}  // namespace
}  // namespace torus::gateway
