#include "service/store/store.h"

#include <future>

#include "base/fault.h"
#include "service/store/schema.h"

namespace torus::store {
namespace {

// The first text that sorts after every text with this prefix ("" has none: match all).
std::string AfterPrefix(std::string_view prefix) {
  std::string end(prefix);
  if (!end.empty()) ++end.back();
  return end;
}

}  // namespace

Result<std::optional<std::string>> View::FindBytes(std::string_view table, std::string_view name) {
  TORUS_ASSIGN_OR_RETURN(Statement query, connection_.Prepare(fmt::format(
                                              "SELECT body FROM {} WHERE name = ?1", table)));
  TORUS_ASSIGN_OR_RETURN(const bool found, query.Bind(1, name).Step());
  if (!found) return std::nullopt;
  return std::string(query.Text(0));
}

Status View::ListBytes(std::string_view table, std::string_view prefix, std::string_view after,
                       int64_t limit, const std::function<bool(std::string_view)>& take) {
  const std::string end = AfterPrefix(prefix);
  TORUS_ASSIGN_OR_RETURN(
      Statement query,
      connection_.Prepare(fmt::format("SELECT body, name FROM {} WHERE name >= ?1 AND "
                                      "(?2 = '' OR name < ?2) AND name > ?3 ORDER BY name LIMIT ?4",
                                      table)));
  query.Bind(1, prefix).Bind(2, end).Bind(3, after).Bind(4, limit);
  for (;;) {
    TORUS_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return {};
    if (!take(query.Text(0)))
      return MakeError(Code::kDataLoss, "The stored record {} cannot be read.", query.Text(1));
  }
}

Result<std::optional<int64_t>> View::FreeSlotAfter(int64_t slot, int64_t last) {
  TORUS_ASSIGN_OR_RETURN(
      Statement taken, connection_.Prepare("SELECT slot FROM slot WHERE slot > ?1 ORDER BY slot"));
  taken.Bind(1, slot);
  for (int64_t next = slot + 1; next <= last; ++next) {
    TORUS_ASSIGN_OR_RETURN(const bool found, taken.Step());
    if (!found || taken.Integer(0) != next) return next;
  }
  return std::nullopt;
}

Result<int64_t> View::LastSlot() {
  TORUS_ASSIGN_OR_RETURN(Statement query,
                         connection_.Prepare("SELECT value FROM counter WHERE name = 'last_slot'"));
  TORUS_RETURN_IF_ERROR(query.Step());
  return query.Integer(0);
}

Status Transaction::PutBytes(std::string_view table, std::string_view name,
                             std::string_view bytes) {
  TORUS_ASSIGN_OR_RETURN(Statement write, connection_.Prepare(fmt::format(
                                              "INSERT INTO {} (name, body) VALUES (?1, ?2) "
                                              "ON CONFLICT (name) DO UPDATE SET body = ?2",
                                              table)));
  TORUS_RETURN_IF_ERROR(write.Bind(1, name).BindBlob(2, bytes).Step());
  return {};
}

Status Transaction::EraseRow(std::string_view table, std::string_view name) {
  TORUS_ASSIGN_OR_RETURN(Statement write,
                         connection_.Prepare(fmt::format("DELETE FROM {} WHERE name = ?1", table)));
  TORUS_RETURN_IF_ERROR(write.Bind(1, name).Step());
  return {};
}

Status Transaction::TakeSlot(int64_t slot, std::string_view node) {
  {
    TORUS_ASSIGN_OR_RETURN(Statement write,
                           connection_.Prepare("INSERT INTO slot (slot, node) VALUES (?1, ?2)"));
    TORUS_RETURN_IF_ERROR(write.Bind(1, slot).Bind(2, node).Step());
  }
  return SetLastSlot(slot);
}

Status Transaction::SetLastSlot(int64_t slot) {
  TORUS_ASSIGN_OR_RETURN(
      Statement cursor,
      connection_.Prepare("UPDATE counter SET value = ?1 WHERE name = 'last_slot'"));
  TORUS_RETURN_IF_ERROR(cursor.Bind(1, slot).Step());
  return {};
}

Status Transaction::FreeSlot(int64_t slot) {
  TORUS_ASSIGN_OR_RETURN(Statement write, connection_.Prepare("DELETE FROM slot WHERE slot = ?1"));
  TORUS_RETURN_IF_ERROR(write.Bind(1, slot).Step());
  return {};
}

Result<std::unique_ptr<Store>> Store::Open(const std::string& path, int64_t max_pages) {
  TORUS_ASSIGN_OR_RETURN(auto writer, Connection::Open(path));
  TORUS_RETURN_IF_ERROR(Migrate(path, *writer));
  if (max_pages > 0)
    TORUS_RETURN_IF_ERROR(
        writer->Execute(fmt::format("PRAGMA max_page_count={}", max_pages).c_str()));
  return std::unique_ptr<Store>(new Store(path, std::move(writer)));
}

Store::Store(std::string path, std::unique_ptr<Connection> writer)
    : path_(std::move(path)), writer_(std::move(writer)), thread_([this] { RunWriter(); }) {}

Store::~Store() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  thread_.join();
}

void Store::Write(Body body, Done done) {
  {
    const MutexLock lock(mutex_);
    queue_.push_back({std::move(body), std::move(done)});
  }
  wake_.NotifyOne();
}

Status Store::WriteAndWait(Body body) {
  std::promise<Status> outcome;
  Write(std::move(body), [&](Status status) { outcome.set_value(std::move(status)); });
  return outcome.get_future().get();
}

void Store::RunWriter() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && queue_.empty()) wake_.Wait(lock);
    if (queue_.empty()) return;
    std::vector<Request> group = std::exchange(queue_, {});
    lock.Unlock();
    RunGroup(std::move(group));
    lock.Lock();
  }
}

// One commit for all; where that fails (a full disk, most likely), one commit for each, so that
// only those that do not fit are refused.
void Store::RunGroup(std::vector<Request> group) {
  std::vector<Status> outcomes;
  const Status together = CommitTogether(group, &outcomes);
  for (size_t i = 0; i < group.size(); ++i) {
    if (together.ok()) {
      group[i].done(std::move(outcomes[i]));
      continue;
    }
    std::vector<Status> own;
    Status alone = group.size() == 1 ? together : CommitTogether({&group[i], 1}, &own);
    group[i].done(alone.ok() ? std::move(own[0]) : std::move(alone));
  }
}

Status Store::EndSavepoint(bool keep) {
  if (!keep) TORUS_RETURN_IF_ERROR(writer_->Run("ROLLBACK TO request"));
  return writer_->Run("RELEASE request");
}

// Runs each transaction in a savepoint of its own and commits. An error means that nothing of the
// group is in the file.
Status Store::CommitTogether(std::span<Request> group, std::vector<Status>* outcomes) {
  Changes changes;
  TORUS_RETURN_IF_ERROR(writer_->Run("BEGIN IMMEDIATE"));
  for (Request& request : group) {
    Changes own;
    Transaction transaction(*writer_, own);
    Status status = writer_->Run("SAVEPOINT request");
    if (status.ok()) status = request.body(transaction);
    // A full disk or an I/O error may undo the whole transaction, and with it what was done before.
    if (!writer_->InTransaction()) return status;
    const Status closed = EndSavepoint(status.ok());
    if (!closed.ok()) {
      if (writer_->InTransaction()) (void)writer_->Run("ROLLBACK");
      return closed;
    }
    if (status.ok()) {
      std::ranges::move(own.nodes, std::back_inserter(changes.nodes));
      std::ranges::move(own.projects, std::back_inserter(changes.projects));
    }
    outcomes->push_back(std::move(status));
  }
  FaultPoint("store.commit");
  if (Status commit = writer_->Run("COMMIT"); !commit.ok()) {
    if (writer_->InTransaction()) (void)writer_->Run("ROLLBACK");
    return commit;
  }
  FaultPoint("store.committed");
  if (!changes.nodes.empty() || !changes.projects.empty()) {
    const MutexLock lock(on_commit_mutex_);
    if (on_commit_) on_commit_(changes);
  }
  return {};
}

Store::Reader::~Reader() {
  if (!connection) return;
  (void)connection->Run("COMMIT");
  const MutexLock lock(store->readers_mutex_);
  store->idle_readers_.push_back(std::move(connection));
}

Result<Store::Reader> Store::BorrowReader() {
  std::unique_ptr<Connection> connection;
  {
    const MutexLock lock(readers_mutex_);
    if (!idle_readers_.empty()) {
      connection = std::move(idle_readers_.back());
      idle_readers_.pop_back();
    }
  }
  if (!connection) {
    TORUS_ASSIGN_OR_RETURN(connection, Connection::Open(path_));
  }
  TORUS_RETURN_IF_ERROR(connection->Run("BEGIN"));
  return Reader(this, std::move(connection));
}

}  // namespace torus::store
