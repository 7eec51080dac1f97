// The store: every record the service has, durable in one SQLite file.
//
// One writer thread runs the transactions that are waiting, each in a savepoint of its own, and
// commits them together (a commit costs an fsync, about 2 ms, however many share it). Readers see
// the snapshot of the last commit and never wait for the writer. The schema: schema.cc.
//
// Thread-safety: Store may be used from any thread. A View or Transaction belongs to the function
// it was handed to.
#ifndef TORUS_SERVICE_STORE_STORE_H_
#define TORUS_SERVICE_STORE_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "record.pb.h"
#include "service/store/sqlite.h"

namespace torus::store {

// Which table holds a record type; a record's key is its `name`.
template <typename Record>
struct TableOf;
template <>
struct TableOf<model::NodeRecord> {
  static constexpr std::string_view kName = "node";
};
template <>
struct TableOf<model::OperationRecord> {
  static constexpr std::string_view kName = "operation";
};
template <>
struct TableOf<model::ProjectRecord> {
  static constexpr std::string_view kName = "project";
};

// Reads. A record that is not there is nullopt; an error is the store's own.
class View {
 public:
  explicit View(Connection& connection) : connection_(connection) {}

  template <typename Record>
  Result<std::optional<Record>> Find(std::string_view name) {
    std::optional<Record> record;
    TORUS_ASSIGN_OR_RETURN(const std::optional<std::string> bytes,
                           FindBytes(TableOf<Record>::kName, name));
    if (bytes && !record.emplace().ParseFromString(*bytes))
      return MakeError(Code::kDataLoss, "The stored record {} cannot be read.", name);
    return record;
  }

  // Records whose names begin with `prefix` and come after `after`, by name, at most `limit`.
  template <typename Record>
  Result<std::vector<Record>> List(std::string_view prefix, std::string_view after = {},
                                   int64_t limit = -1) {
    std::vector<Record> records;
    TORUS_RETURN_IF_ERROR(
        ListBytes(TableOf<Record>::kName, prefix, after, limit, [&](std::string_view bytes) {
          return records.emplace_back().ParseFromArray(bytes.data(),
                                                       static_cast<int>(bytes.size()));
        }));
    return records;
  }

  // Shows `take` what List would give, record by record in one message: much cheaper for many.
  template <typename Record>
  Status ForEach(std::string_view prefix, std::string_view after, int64_t limit,
                 const std::function<void(const Record&)>& take) {
    Record record;
    return ListBytes(TableOf<Record>::kName, prefix, after, limit, [&](std::string_view bytes) {
      if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
      take(record);
      return true;
    });
  }

  // The first slot (placement/slots.h) after `slot` that is free; nullopt: none up to `last`.
  Result<std::optional<int64_t>> FreeSlotAfter(int64_t slot, int64_t last);
  // The slot that was taken last, so that addresses are not used again at once; 0 at first.
  Result<int64_t> LastSlot();

 protected:
  Result<std::optional<std::string>> FindBytes(std::string_view table, std::string_view name);
  Status ListBytes(std::string_view table, std::string_view prefix, std::string_view after,
                   int64_t limit, const std::function<bool(std::string_view)>& take);
  Connection& connection_;
};

// Names that a commit touched, so that controllers wake for just those.
struct Changes {
  std::vector<std::string> nodes;
  std::vector<std::string> projects;
};

// Reads and writes; what it wrote is undone if its function returns an error.
class Transaction : public View {
 public:
  Transaction(Connection& connection, Changes& changes) : View(connection), changes_(changes) {}

  template <typename Record>
  Status Put(const Record& record) {
    Note<Record>(record.name());
    return PutBytes(TableOf<Record>::kName, record.name(), record.SerializeAsString());
  }
  template <typename Record>
  Status Erase(std::string_view name) {
    Note<Record>(name);
    return EraseRow(TableOf<Record>::kName, name);
  }
  Status TakeSlot(int64_t slot, std::string_view node);
  Status FreeSlot(int64_t slot);
  // Where the search for a free slot begins.
  Status SetLastSlot(int64_t slot);

 private:
  template <typename Record>
  void Note(std::string_view name) {
    if constexpr (std::is_same_v<Record, model::NodeRecord>) changes_.nodes.emplace_back(name);
    if constexpr (std::is_same_v<Record, model::ProjectRecord>)
      changes_.projects.emplace_back(name);
  }
  Status PutBytes(std::string_view table, std::string_view name, std::string_view bytes);
  Status EraseRow(std::string_view table, std::string_view name);
  Changes& changes_;
};

class Store {
 public:
  using Body = std::function<Status(Transaction&)>;
  using Done = std::function<void(Status)>;

  // Opens or makes the store at `path`. FAILED_PRECONDITION: not writable, or of a newer schema
  // than this build knows; DATA_LOSS: damaged.
  // The file is its owner's alone. `max_pages` bounds its size, as a full disk does: for tests.
  static Result<std::unique_ptr<Store>> Open(const std::string& path, int64_t max_pages = 0);
  // Runs what is queued, then stops.
  ~Store();

  // Queues a transaction. `done` is called once, on the writer's thread, when the outcome is
  // durable: with the body's error, the commit's, or OK. A body may run again, alone, after a
  // commit that failed, so it must have no effect but on the transaction and its own captures.
  void Write(Body body, Done done);
  // As Write, and waits. Not from the writer's thread (a body or a done).
  Status WriteAndWait(Body body);

  // Runs `body` on a snapshot, on this thread.
  template <typename Body>
  auto Read(Body&& body) -> decltype(body(std::declval<View&>())) {
    TORUS_ASSIGN_OR_RETURN(Reader reader, BorrowReader());
    View view(*reader.connection);
    return body(view);
  }

  // Called on the writer's thread after each commit that changed something. Once this returns, the
  // one before is not called any more.
  void set_on_commit(std::function<void(const Changes&)> on_commit) {
    const MutexLock lock(on_commit_mutex_);
    on_commit_ = std::move(on_commit);
  }

 private:
  struct Request {
    Body body;
    Done done;
  };
  // A pooled read connection inside a read transaction.
  struct Reader {
    Store* store;
    std::unique_ptr<Connection> connection;
    Reader(Store* store, std::unique_ptr<Connection> connection)
        : store(store), connection(std::move(connection)) {}
    Reader(Reader&&) = default;
    ~Reader();
  };

  Store(std::string path, std::unique_ptr<Connection> writer);
  Result<Reader> BorrowReader();
  void RunWriter();
  void RunGroup(std::vector<Request> group);
  Status EndSavepoint(bool keep);
  Status CommitTogether(std::span<Request> group, std::vector<Status>* outcomes);

  const std::string path_;
  std::unique_ptr<Connection> writer_;
  Mutex on_commit_mutex_;
  std::function<void(const Changes&)> on_commit_ TORUS_GUARDED_BY(on_commit_mutex_);

  Mutex mutex_;
  Condition wake_;
  std::vector<Request> queue_ TORUS_GUARDED_BY(mutex_);
  bool stopping_ TORUS_GUARDED_BY(mutex_) = false;

  Mutex readers_mutex_;
  std::vector<std::unique_ptr<Connection>> idle_readers_ TORUS_GUARDED_BY(readers_mutex_);

  std::thread thread_;
};

}  // namespace torus::store

#endif  // TORUS_SERVICE_STORE_STORE_H_
