#include "service/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

namespace torus::store {
namespace {

using model::NodeRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("store_test_") + std::to_string(getpid()) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    Reopen();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Reopen() {
    store_.reset();
    auto store = Store::Open(path());
    ASSERT_TRUE(store) << store.error().ToString();
    store_ = *std::move(store);
  }
  std::string path() const { return folder_ / "torus.db"; }

  Status PutNode(const std::string& name, const std::string& description = "") {
    return store_->WriteAndWait([&](Transaction& transaction) {
      NodeRecord node;
      node.set_name(name);
      node.set_description(description);
      return transaction.Put(node);
    });
  }
  std::vector<std::string> Names(std::string_view prefix, std::string_view after = {},
                                 int64_t limit = -1) {
    auto nodes =
        store_->Read([&](View& view) { return view.List<NodeRecord>(prefix, after, limit); });
    EXPECT_TRUE(nodes);
    std::vector<std::string> names;
    for (const auto& node : *nodes) names.push_back(node.name());
    return names;
  }

  std::filesystem::path folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, KeepsWhatWasCommittedAcrossAReopen) {
  ASSERT_TRUE(PutNode("a", "first").ok());
  ASSERT_TRUE(PutNode("a", "second").ok());
  Reopen();
  const auto node = store_->Read([](View& view) { return view.Find<NodeRecord>("a"); });
  ASSERT_TRUE(node && *node);
  EXPECT_EQ((*node)->description(), "second");
  const auto missing = store_->Read([](View& view) { return view.Find<NodeRecord>("b"); });
  ASSERT_TRUE(missing);
  EXPECT_FALSE(*missing);
}

TEST_F(StoreTest, ListsByPrefixInPages) {
  for (const char* name : {"p/1/a", "p/1/b", "p/1/c", "p/2/a", "q/1/a"})
    ASSERT_TRUE(PutNode(name).ok());
  EXPECT_THAT(Names("p/1/"), ElementsAre("p/1/a", "p/1/b", "p/1/c"));
  EXPECT_THAT(Names("p/1/", "", 2), ElementsAre("p/1/a", "p/1/b"));
  EXPECT_THAT(Names("p/1/", "p/1/b", 2), ElementsAre("p/1/c"));
  EXPECT_THAT(Names("p/"), ElementsAre("p/1/a", "p/1/b", "p/1/c", "p/2/a"));
  EXPECT_EQ(Names("").size(), 5u);
}

TEST_F(StoreTest, FailedBodyChangesNothingAndSparesItsNeighbours) {
  std::atomic<int> answered = 0;
  std::vector<Status> outcomes(3);
  for (int i = 0; i < 3; ++i) {
    store_->Write(
        [i](Transaction& transaction) -> Status {
          NodeRecord node;
          node.set_name("n" + std::to_string(i));
          TORUS_RETURN_IF_ERROR(transaction.Put(node));
          if (i == 1) return InvalidArgument("no");
          return {};
        },
        [&, i](Status status) {
          outcomes[i] = std::move(status);
          ++answered;
        });
  }
  ASSERT_TRUE(PutNode("last").ok());
  EXPECT_EQ(answered, 3);
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_EQ(outcomes[1].code(), Code::kInvalidArgument);
  EXPECT_TRUE(outcomes[2].ok());
  EXPECT_THAT(Names(""), ElementsAre("last", "n0", "n2"));
}

TEST_F(StoreTest, TellsWhichNodesACommitTouched) {
  std::vector<std::string> seen;
  store_->set_on_commit([&](const Changes& changes) { seen = changes.nodes; });
  ASSERT_TRUE(PutNode("a").ok());
  EXPECT_THAT(seen, ElementsAre("a"));
}

TEST_F(StoreTest, ReadersSeeASnapshotWhileAWriteCommits) {
  ASSERT_TRUE(PutNode("a", "old").ok());
  const auto description = store_->Read([&](View& view) -> Result<std::string> {
    (void)view.Find<NodeRecord>("a");
    EXPECT_TRUE(PutNode("a", "new").ok());
    TORUS_ASSIGN_OR_RETURN(const auto node, view.Find<NodeRecord>("a"));
    return node->description();
  });
  EXPECT_EQ(*description, "old");
}

TEST_F(StoreTest, SlotsHaveOneHolder) {
  const auto take = [&](int64_t slot, std::string node) {
    return store_->WriteAndWait(
        [=](Transaction& transaction) { return transaction.TakeSlot(slot, node); });
  };
  EXPECT_TRUE(take(7, "a").ok());
  EXPECT_FALSE(take(7, "b").ok());
  EXPECT_EQ(*store_->Read([](View& view) { return view.LastSlot(); }), 7);
  EXPECT_TRUE(store_->WriteAndWait([](Transaction& t) { return t.FreeSlot(7); }).ok());
  EXPECT_TRUE(take(7, "c").ok());
}

TEST_F(StoreTest, FindsTheNextFreeSlot) {
  for (const int64_t slot : {1, 2, 4, 5})
    ASSERT_TRUE(store_->WriteAndWait([=](Transaction& t) { return t.TakeSlot(slot, "a"); }).ok());
  const auto after = [&](int64_t slot) {
    return *store_->Read([=](View& view) { return view.FreeSlotAfter(slot, 5); });
  };
  EXPECT_EQ(after(0), 3);
  EXPECT_EQ(after(2), 3);
  EXPECT_EQ(after(3), std::nullopt);
  EXPECT_EQ(after(5), std::nullopt);
  EXPECT_EQ(*store_->Read([=](View& view) { return view.FreeSlotAfter(3, 9); }), 6);
}

// A full disk ends SQLite's transaction by itself, in the middle of a group: whoever was told that
// a write is done must find it, whoever was refused must not, and the store goes on.
TEST_F(StoreTest, AFullDiskLosesNothingThatWasAcknowledged) {
  store_.reset();
  store_ = *Store::Open(path(), 60);
  std::mutex mutex;
  std::vector<std::string> acknowledged, refused;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 8; ++i) {
        const std::string name = "n" + std::to_string(t) + "/" + std::to_string(i);
        const Status status = PutNode(name, std::string((i % 3 + 1) * 9000, 'x'));
        EXPECT_TRUE(status.ok() || status.code() == Code::kResourceExhausted) << status.ToString();
        std::lock_guard lock(mutex);
        (status.ok() ? acknowledged : refused).push_back(name);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(acknowledged.empty());
  EXPECT_FALSE(refused.empty());
  std::ranges::sort(acknowledged);
  EXPECT_EQ(Names(""), acknowledged);
  Reopen();
  EXPECT_EQ(Names(""), acknowledged);
  EXPECT_TRUE(PutNode("after").ok());
}

TEST_F(StoreTest, TheFileIsItsOwnersAlone) {
  ASSERT_TRUE(PutNode("a").ok());
  for (const char* suffix : {"", "-wal", "-shm"})
    EXPECT_EQ(std::filesystem::status(path() + suffix).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
        << suffix;
}

TEST_F(StoreTest, RefusesANewerSchema) {
  store_.reset();
  {
    auto connection = Connection::Open(path());
    ASSERT_TRUE((*connection)->Execute("PRAGMA user_version=99").ok());
  }
  const auto store = Store::Open(path());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kFailedPrecondition);
  EXPECT_THAT(store.error().message(), HasSubstr("schema version 99"));
}

TEST_F(StoreTest, RefusesAFileThatIsNoDatabase) {
  store_.reset();
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path() + suffix);
  FILE* file = fopen(path().c_str(), "w");
  for (int i = 0; i < 500; ++i) fputs("this is not a database\n", file);
  fclose(file);
  const auto store = Store::Open(path());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kDataLoss);
  EXPECT_THAT(store.error().message(), HasSubstr(path()));
}

TEST_F(StoreTest, GroupsManyWritersAndLosesNone) {
  std::vector<std::thread> threads;
  std::atomic<int> succeeded = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        succeeded += PutNode("n" + std::to_string(t) + "/" + std::to_string(i)).ok();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(succeeded, 400);
  Reopen();
  EXPECT_EQ(Names("").size(), 400u);
}

}  // namespace
}  // namespace torus::store
