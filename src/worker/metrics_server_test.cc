#include "worker/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "slice/counters.h"
#include "tpu_metrics.grpc.pb.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;
namespace runtime = tpu::monitoring::runtime;

// A VM's root with a process in it: this one.
class Metrics : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/torus-metrics-test-XXXXXX";
    root_ = mkdtemp(name);
    folder_ = root_ + slice::kCountersFolder;
    const std::string process = fmt::format("{}/proc/{}", root_, getpid());
    ASSERT_TRUE(MakeFolders(folder_).ok() && MakeFolders(process).ok());
    ASSERT_TRUE(WriteFile(process + "/stat", *ReadFile("/proc/self/stat")).ok());
    const auto port = server_.ListenAt("127.0.0.1", 0, root_);
    ASSERT_TRUE(port.has_value()) << port.error().message();
    port_ = *port;
    stub_ = runtime::RuntimeMetricService::NewStub(grpc::CreateChannel(
        fmt::format("127.0.0.1:{}", port_), grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    stub_.reset();
    server_.Stop();
    fs::remove_all(root_);
  }

  std::unique_ptr<slice::CountersPage> Page() const {
    return slice::CountersPage::Make(folder_, {.devices = {{0, 0}}});
  }
  grpc::Status Ask(const std::string& name) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    runtime::MetricRequest request;
    request.set_metric_name(name);
    response_.Clear();
    return stub_->GetRuntimeMetric(&context, request, &response_);
  }
  double Value() const { return response_.metric().metrics(0).gauge().as_double(); }

  static constexpr char kDuty[] = "tpu.runtime.tensorcore.dutycycle.percent";

  std::string root_, folder_;
  MetricsServer server_;
  uint16_t port_ = 0;
  std::unique_ptr<runtime::RuntimeMetricService::Stub> stub_;
  runtime::MetricResponse response_;
};

TEST_F(Metrics, AnswersAsAClosedPortWhereNobodyUsesTheTpu) {
  EXPECT_EQ(Ask(kDuty).error_code(), grpc::StatusCode::UNAVAILABLE);
  {
    const auto page = Page();
    EXPECT_TRUE(Ask(kDuty).ok());
  }
  EXPECT_EQ(Ask(kDuty).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(Metrics, TheDutyCycleIsOfTheTimeThatWas) {
  const auto page = Page();
  EXPECT_TRUE(Ask(kDuty).ok());
  EXPECT_EQ(Value(), 0);
  page->device(0).busy_since = slice::CountersNow();
  page->device(0).running = 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(Ask(kDuty).ok());
  EXPECT_GT(Value(), 30);
  EXPECT_LE(Value(), 100);
}

TEST_F(Metrics, ListsWhatThereIs) {
  grpc::ClientContext context;
  runtime::ListSupportedMetricsRequest request;
  request.set_filter("hbm.memory");
  runtime::ListSupportedMetricsResponse response;
  EXPECT_TRUE(stub_->ListSupportedMetrics(&context, request, &response).ok());
  EXPECT_EQ(response.supported_metric_size(), 2);
}

TEST_F(Metrics, FollowsNoLinkAndReadsNothingButPages) {
  const auto page = Page();
  const std::string name = fs::path(page->path()).filename();
  const auto own = name.substr(0, name.rfind('-'));
  // Outside the root lies a page that is good.
  const std::string outside = root_ + ".outside";
  fs::copy_file(page->path(), outside);
  fs::create_symlink(outside, folder_ + "/" + own + "-90");
  fs::create_symlink("/dev/zero", folder_ + "/" + own + "-91");
  mkfifo((folder_ + "/" + own + "-92").c_str(), 0644);
  std::ofstream(folder_ + "/" + own + "-93") << "nonsense";
  fs::create_directory(folder_ + "/" + own + "-94");
  std::ofstream(folder_ + "/" + own + "-95");
  fs::resize_file(folder_ + "/" + own + "-95", uintmax_t{1} << 40);
  page->device(0).hbm_in_use = 7;
  EXPECT_TRUE(Ask("tpu.runtime.hbm.memory.usage.bytes").ok());
  EXPECT_EQ(response_.metric().metrics(0).gauge().as_int(), 7) << "a second page would add to it";
  fs::rename(folder_, folder_ + ".away");
  fs::create_symlink(folder_ + ".away", folder_);
  EXPECT_EQ(Ask(kDuty).error_code(), grpc::StatusCode::UNAVAILABLE);
  fs::remove(outside);
}

TEST_F(Metrics, ManyConnectionsThatSayNothingLeaveNoHarm) {
  const auto page = Page();
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port_);
  inet_pton(AF_INET, "127.0.0.1", &where.sin_addr);
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  std::vector<int> sockets;
  for (int i = 0; i < 200; ++i) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    connect(sockets.back(), reinterpret_cast<sockaddr*>(&where), sizeof(where));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(descriptors() - before, 200 + 100);
  for (const int fd : sockets) close(fd);
  bool answered = false;
  for (int tries = 0; !answered && tries < 100; ++tries) {
    answered = Ask(kDuty).ok();
    if (!answered) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(answered);
}

}  // namespace
}  // namespace torus::worker
