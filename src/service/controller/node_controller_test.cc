// The controller, the store and the fake backend together: what a commit sets in motion.
#include "service/controller/node_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "service/backend/fake/fake_backend.h"
#include "service/controller/operation_sweeper.h"
#include "service/model/operation.h"

namespace torus::controller {
namespace {

using namespace std::chrono_literals;
using Phase = model::Observation::Phase;

constexpr char kName[] = "projects/p/locations/z/nodes/n";

google::protobuf::Timestamp At(int64_t seconds) {
  google::protobuf::Timestamp time;
  time.set_seconds(seconds);
  return time;
}

// Says what the test set, and counts how often it was asked.
class ScriptedBackend : public backend::FakeBackend {
 public:
  model::Observation Converge(const model::NodeRecord& node, const model::ProjectRecord&) override {
    std::lock_guard lock(mutex_);
    ++asked_;
    model::Observation seen = seen_;
    seen.generation = node.generation();
    return seen;
  }
  void Say(model::Observation seen) {
    {
      std::lock_guard lock(mutex_);
      seen_ = std::move(seen);
    }
    Wake(kName);
  }
  int asked() {
    std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  std::mutex mutex_;
  model::Observation seen_;
  int asked_ = 0;
};

class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() {
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("controller_test_") + std::to_string(getpid()) +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    store_ = *store::Store::Open(folder_ / "torus.db");
  }
  ~ControllerTest() override {
    controller_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  void StartController() {
    controller_ = std::make_unique<NodeController>(*store_, backend_, [] { return At(100); });
  }
  void CreateNode() {
    const Status status = store_->WriteAndWait([](store::Transaction& transaction) -> Status {
      model::NodeRecord node;
      node.set_name(kName);
      node.set_state(model::CREATING);
      node.set_generation(1);
      node.add_hosts()->set_slot(1);
      TORUS_RETURN_IF_ERROR(transaction.TakeSlot(1, kName));
      const auto operation = model::BeginOperation("create", At(100), &node);
      TORUS_RETURN_IF_ERROR(transaction.Put(operation));
      return transaction.Put(node);
    });
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  std::optional<model::NodeRecord> Node() {
    return *store_->Read([](store::View& view) { return view.Find<model::NodeRecord>(kName); });
  }
  std::vector<model::OperationRecord> Operations() {
    return *store_->Read([](store::View& view) { return view.List<model::OperationRecord>(""); });
  }
  template <typename Condition>
  bool Eventually(Condition condition) {
    for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(10ms))
      if (condition()) return true;
    return false;
  }

  std::filesystem::path folder_;
  ScriptedBackend backend_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<NodeController> controller_;
};

TEST_F(ControllerTest, ACommitWakesItAndNewsMoveTheRecord) {
  StartController();
  CreateNode();
  ASSERT_TRUE(Eventually([&] { return backend_.asked() > 0; }));
  EXPECT_EQ(Node()->state(), model::CREATING);
  backend_.Say({.phase = Phase::kRunning});
  EXPECT_TRUE(Eventually([&] { return Node()->state() == model::READY; }));
  EXPECT_TRUE(Operations()[0].done());
}

TEST_F(ControllerTest, TakesUpWhatACrashLeft) {
  CreateNode();
  backend_.Say({.phase = Phase::kRunning});
  StartController();
  EXPECT_TRUE(Eventually([&] { return Node()->state() == model::READY; }));
}

TEST_F(ControllerTest, AFailedCreateEndsWhenNothingIsLeft) {
  StartController();
  CreateNode();
  backend_.Say({.phase = Phase::kFailed,
                .error = Status(Code::kResourceExhausted, "disk full"),
                .permanent = true});
  ASSERT_TRUE(Eventually([&] { return Node()->state() == model::DELETING; }));
  EXPECT_FALSE(Operations()[0].done());
  backend_.Say({.phase = Phase::kDeleted});
  ASSERT_TRUE(Eventually([&] { return !Node(); }));
  EXPECT_EQ(Operations()[0].error_message(), "disk full");
  EXPECT_EQ(*store_->Read([](store::View& view) { return view.FreeSlotAfter(0, 1); }), 1);
}

TEST_F(ControllerTest, NothingIsWrittenWhereNothingMoves) {
  StartController();
  CreateNode();
  backend_.Say({.phase = Phase::kRunning});
  ASSERT_TRUE(Eventually([&] { return Node()->state() == model::READY; }));
  std::this_thread::sleep_for(50ms);
  const int settled = backend_.asked();
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(backend_.asked(), settled) << "a settled node is left alone until the resync";
}

TEST_F(ControllerTest, OldOperationsAreForgotten) {
  ASSERT_TRUE(store_
                  ->WriteAndWait([](store::Transaction& transaction) -> Status {
                    for (const auto& [name, end] :
                         std::vector<std::pair<std::string, int64_t>>{{"old", 10}, {"new", 900}}) {
                      model::OperationRecord operation;
                      operation.set_name(name);
                      operation.set_done(true);
                      *operation.mutable_end_time() = At(end);
                      TORUS_RETURN_IF_ERROR(transaction.Put(operation));
                    }
                    model::OperationRecord running;
                    running.set_name("running");
                    return transaction.Put(running);
                  })
                  .ok());
  EXPECT_EQ(SweepOperations(*store_, At(kKeepOperations + 500)), 1);
  const auto left = Operations();
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].name(), "new");
  EXPECT_EQ(left[1].name(), "running");
}

}  // namespace
}  // namespace torus::controller
