#include "worker/metadata_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

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

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A connection that has asked and not yet read.
class Asked {
 public:
  Asked(uint16_t port, const std::string& path) {
    socket_.connect({asio::ip::make_address("127.0.0.1"), port});
    http::request<http::empty_body> request(http::verb::get, "/computeMetadata/v1/" + path, 11);
    request.set("Metadata-Flavor", "Google");
    http::write(socket_, request);
  }
  Response Read() {
    boost::beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    http::read(socket_, buffer, parser);
    return parser.release();
  }
  bool HasAnswer() { return socket_.available() > 0; }

 private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_{io_};
};

TEST_F(MetadataServerTest, ManyThatWaitCostNothingAndAreBounded) {
  std::vector<std::unique_ptr<Asked>> all;
  for (int i = 0; i < 250; ++i)
    all.push_back(std::make_unique<Asked>(port_, "project/project-id?wait_for_change=true"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::vector<Asked*> waiting;
  for (const auto& asked : all) {
    if (asked->HasAnswer())
      EXPECT_EQ(asked->Read().result_int(), 503u);
    else
      waiting.push_back(asked.get());
  }
  EXPECT_EQ(waiting.size(), 64u);
  const double before = CpuSeconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(CpuSeconds() - before, 0.1);
  EXPECT_EQ(Get("project/project-id").body(), "p") << "others are served meanwhile";
  // What is no change to them wakes nobody for good.
  server_.SetGuestAttributes({{"a/b", "c"}});
  VmSpec vm;
  vm.set_project("q");
  vm.set_address("10.128.0.9");
  server_.SetTree(MetadataTree(vm, 0));
  for (Asked* asked : waiting) EXPECT_EQ(asked->Read().body(), "q");
}

TEST_F(MetadataServerTest, OneThatHangsUpWaitsNoMore) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Asked>> all;
    for (int i = 0; i < 64; ++i)
      all.push_back(std::make_unique<Asked>(port_, "project/project-id?wait_for_change=true"));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (const auto& asked : all) EXPECT_FALSE(asked->HasAnswer());
    all.clear();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(Get("project/project-id?wait_for_change=true&timeout_sec=1").body(), "p");
}

TEST_F(MetadataServerTest, OneThatHangsUpAfterSayingMoreWaitsNoMore) {
  asio::io_context io;
  asio::ip::tcp::socket socket(io);
  socket.connect({asio::ip::make_address("127.0.0.1"), port_});
  const auto send = [&](std::string_view text) { asio::write(socket, asio::buffer(text)); };
  send(
      "GET /computeMetadata/v1/project/project-id?wait_for_change=true HTTP/1.1\r\n"
      "Metadata-Flavor: Google\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  send("and more");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  socket.shutdown(asio::ip::tcp::socket::shutdown_send);
  const timeval limit{.tv_sec = 10, .tv_usec = 0};  // a read that takes longer fails
  setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char answer[4096];
  EXPECT_GT(recv(socket.native_handle(), answer, sizeof answer, 0), 0);
}

TEST_F(MetadataServerTest, AGuestAttributesChangeIsWaitedFor) {
  const std::string path = "instance/guest-attributes/a/b";
  Asked asked(port_, path + "?wait_for_change=true&timeout_sec=20");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(asked.HasAnswer());
  EXPECT_EQ(
      Send(http::verb::put, "/computeMetadata/v1/" + path, {{"Metadata-Flavor", "Google"}}, "new")
          .result_int(),
      200u);
  EXPECT_EQ(asked.Read().body(), "new");
}

TEST_F(MetadataServerTest, AGuestAttributeIsText) {
  EXPECT_EQ(Send(http::verb::put, "/computeMetadata/v1/instance/guest-attributes/a/b",
                 {{"Metadata-Flavor", "Google"}}, "\xff\xfe")
                .result_int(),
            400u);
}

TEST_F(MetadataServerTest, MuchMetadataTakesBoundedMemory) {
  VmSpec vm;
  vm.set_project("p");
  vm.set_address("10.128.0.9");
  (*vm.mutable_metadata())["big"] = std::string(16 << 20, 'x');
  server_.SetTree(MetadataTree(vm, 0));
  // Nobody reads: what is on its way stays in memory.
  std::vector<std::unique_ptr<Asked>> all;
  for (int i = 0; i < 20; ++i)
    all.push_back(std::make_unique<Asked>(port_, "instance/attributes/big"));
  EXPECT_EQ(Get("project/project-id").body(), "p");
  int sent = 0, refused = 0;
  for (const auto& asked : all) {
    const Response response = asked->Read();
    if (response.result_int() == 503u) ++refused;
    if (response.body().size() == 16 << 20) ++sent;
  }
  EXPECT_GE(sent, 1);
  EXPECT_GE(refused, 10);
  EXPECT_EQ(sent + refused, 20);
}

TEST_F(MetadataServerTest, StopsWithRequestsWaiting) {
  std::vector<std::unique_ptr<Asked>> all;
  for (int i = 0; i < 64; ++i)
    all.push_back(std::make_unique<Asked>(port_, "project/project-id?wait_for_change=true"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server_.Stop();
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
