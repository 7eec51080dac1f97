#include "worker/metadata_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <thread>

namespace torus::worker {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Response = http::response<http::string_body>;
using ::testing::ElementsAre;
using ::testing::Pair;

class MetadataServerTest : public testing::Test {
 protected:
  void SetUp() override {
    VmSpec vm;
    vm.set_project("p");
    vm.set_address("10.128.0.9");
    server_.SetTree(MetadataTree(vm, 0));
    const auto port = server_.ListenAt("127.0.0.1", 0);
    ASSERT_TRUE(port) << port.error().ToString();
    port_ = *port;
  }

  Response Send(http::verb method, const std::string& target,
                const std::map<std::string, std::string>& headers = {{"Metadata-Flavor", "Google"}},
                const std::string& body = "") const {
    asio::io_context io;
    asio::ip::tcp::socket socket(io);
    socket.connect({asio::ip::make_address("127.0.0.1"), port_});
    http::request<http::string_body> request(method, target, 11);
    for (const auto& [name, value] : headers) request.set(name, value);
    request.body() = body;
    request.prepare_payload();
    http::write(socket, request);
    boost::beast::flat_buffer buffer;
    Response response;
    http::read(socket, buffer, response);
    return response;
  }
  Response Get(const std::string& path) const {
    return Send(http::verb::get, "/computeMetadata/v1/" + path);
  }

  GuestAttributes changed_;
  MetadataServer server_{[this](const GuestAttributes& attributes) { changed_ = attributes; }};
  uint16_t port_ = 0;
};

TEST_F(MetadataServerTest, SpeaksAsComputeEngineDoes) {
  const Response response = Get("project/project-id");
  EXPECT_EQ(response.result_int(), 200u);
  EXPECT_EQ(response["Metadata-Flavor"], "Google");
  EXPECT_EQ(response.body(), "p");
  EXPECT_EQ(Send(http::verb::get, "/", {}).result_int(), 200u);
  EXPECT_EQ(Send(http::verb::get, "/", {})["Metadata-Flavor"], "Google");
}

TEST_F(MetadataServerTest, RefusesWhatCouldComeThroughABrowserOrProxy) {
  const std::string path = "/computeMetadata/v1/project/project-id";
  EXPECT_EQ(Send(http::verb::get, path, {}).result_int(), 403u);
  EXPECT_EQ(Send(http::verb::get, path, {{"Metadata-Flavor", "other"}}).result_int(), 403u);
  EXPECT_EQ(
      Send(http::verb::get, path, {{"Metadata-Flavor", "Google"}, {"X-Forwarded-For", "1.2.3.4"}})
          .result_int(),
      403u);
  EXPECT_EQ(Send(http::verb::post, path).result_int(), 405u);
}

TEST_F(MetadataServerTest, KeepsGuestAttributes) {
  const std::string base = "/computeMetadata/v1/instance/guest-attributes/";
  const std::map<std::string, std::string> google = {{"Metadata-Flavor", "Google"}};
  EXPECT_EQ(Send(http::verb::put, base + "mine/key", google, "value").result_int(), 200u);
  EXPECT_EQ(Get("instance/guest-attributes/mine/key").body(), "value");
  EXPECT_THAT(changed_, ElementsAre(Pair("mine/key", "value")));
  EXPECT_EQ(Get("instance/guest-attributes/mine/").body(), "key\n");
  EXPECT_EQ(Send(http::verb::delete_, base + "mine/key").result_int(), 200u);
  EXPECT_EQ(Get("instance/guest-attributes/mine/key").result_int(), 404u);
  EXPECT_EQ(Send(http::verb::put, base + "../x", google, "v").result_int(), 404u);
  EXPECT_EQ(Send(http::verb::put, "/computeMetadata/v1/project/x", google, "v").result_int(), 404u);
}

TEST_F(MetadataServerTest, ABodyHasItsLimit) {
  const auto response = Send(http::verb::put, "/computeMetadata/v1/instance/guest-attributes/a/b",
                             {{"Metadata-Flavor", "Google"}}, std::string(65 * 1024, 'x'));
  EXPECT_EQ(response.result_int(), 413u);
}

TEST_F(MetadataServerTest, HoldsARequestUntilAChange) {
  std::thread changer([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    VmSpec vm;
    vm.set_project("q");
    vm.set_address("10.128.0.9");
    server_.SetTree(MetadataTree(vm, 0));
  });
  EXPECT_EQ(Get("project/project-id?wait_for_change=true&timeout_sec=20").body(), "q");
  changer.join();
  EXPECT_EQ(Get("project/project-id?wait_for_change=true&timeout_sec=0").body(), "q");
}

TEST_F(MetadataServerTest, StopsWithConnectionsOpen) {
  asio::io_context io;
  std::vector<asio::ip::tcp::socket> sockets;
  for (int i = 0; i < 300; ++i) {
    sockets.emplace_back(io);
    sockets.back().connect({asio::ip::make_address("127.0.0.1"), port_});
  }
  server_.Stop();
  server_.Stop();
}

}  // namespace
}  // namespace torus::worker
