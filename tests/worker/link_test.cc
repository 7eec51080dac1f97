#include "worker/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <sstream>

#include "base/file.h"
#include "fake_service.h"

namespace torus::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class LinkTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/torus-link-test-XXXXXX";
    folder_ = mkdtemp(name);
    service_ = std::make_unique<FakeService>(folder_ + "/socket");
    before_ = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }
  void TearDown() override {
    link_.reset();
    service_->Stop();
    spdlog::set_default_logger(before_);
    EXPECT_TRUE(RemoveTree(folder_).ok());
  }

  void Dial() {
    link_ = std::make_unique<Link>(folder_ + "/socket", Hello(), [this](const WorkerOrder& order) {
      const std::lock_guard lock(mutex_);
      order_ = order;
      wake_.notify_all();
    });
  }
  bool AwaitOrder(int64_t generation) {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, seconds(20), [&] { return order_.generation() == generation; });
  }
  bool AwaitHellos(int number) {
    for (int i = 0; i < 2000 && service_->hellos() < number; ++i)
      std::this_thread::sleep_for(milliseconds(5));
    return service_->hellos() >= number;
  }
  // What was logged; the link is gone then.
  std::string Log() {
    link_.reset();
    return log_.str();
  }

  std::string folder_;
  std::unique_ptr<FakeService> service_;
  std::ostringstream log_;
  std::shared_ptr<spdlog::logger> before_;
  std::mutex mutex_;
  std::condition_variable wake_;
  WorkerOrder order_;  // guarded by mutex_
  std::unique_ptr<Link> link_;
};

TEST_F(LinkTest, TakesAnOrderHoweverMuchMetadataItBrings) {
  service_->Start();
  WorkerOrder order;
  order.set_generation(1);
  order.set_desired(RUN);
  for (int i = 0; i < 40; ++i)
    (*order.mutable_vm()->mutable_metadata())[std::to_string(i)] = std::string(1 << 20, 'x');
  service_->Order(order);
  Dial();
  ASSERT_TRUE(AwaitOrder(1));
  EXPECT_EQ(service_->hellos(), 1);
}

TEST_F(LinkTest, TellsOnceWhyItIsRefused) {
  service_->Start();
  service_->Refuse({grpc::StatusCode::FAILED_PRECONDITION, "protocol 1 is not spoken here"});
  Dial();
  ASSERT_TRUE(AwaitHellos(4));
  service_->Refuse({grpc::StatusCode::INVALID_ARGUMENT, "another reason"});
  ASSERT_TRUE(AwaitHellos(service_->hellos() + 2));
  service_->Refuse({});
  WorkerOrder order;
  order.set_generation(1);
  service_->Order(order);
  ASSERT_TRUE(AwaitOrder(1));
  const std::string log = Log();
  EXPECT_THAT(log, HasSubstr("FAILED_PRECONDITION: protocol 1 is not spoken here"));
  EXPECT_EQ(log.find("protocol 1"), log.rfind("protocol 1")) << log;
  EXPECT_THAT(log, HasSubstr("INVALID_ARGUMENT: another reason"));
}

TEST_F(LinkTest, AServiceThatIsAwayIsNoNews) {
  Dial();
  std::this_thread::sleep_for(milliseconds(300));
  service_->Start();
  WorkerOrder order;
  order.set_generation(7);
  service_->Order(order);
  ASSERT_TRUE(AwaitOrder(7));
  EXPECT_EQ(Log(), "");
}

}  // namespace
}  // namespace torus::worker
