#include "service/store/sqlite.h"

#include <fcntl.h>
#include <unistd.h>

namespace torus::store {

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Statement& Statement::Bind(int index, std::string_view text) {
  // An empty view may have no address, which SQLite would take for NULL.
  const char* data = text.data() == nullptr ? "" : text.data();
  sqlite3_bind_text64(statement_, index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

Statement& Statement::BindBlob(int index, std::string_view bytes) {
  sqlite3_bind_blob64(statement_, index, bytes.data(), bytes.size(), SQLITE_STATIC);
  return *this;
}

Statement& Statement::Bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_, index, value);
  return *this;
}

Result<bool> Statement::Step() {
  switch (sqlite3_step(statement_)) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return LastError(sqlite3_db_handle(statement_));
  }
}

std::string_view Statement::Text(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return {data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

int64_t Statement::Integer(int column) const { return sqlite3_column_int64(statement_, column); }

Result<std::unique_ptr<Connection>> Connection::Open(const std::string& path) {
  // SQLite gives its -wal and -shm files the mode of the database.
  if (const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); file >= 0)
    close(file);
  sqlite3* database = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &database, kFlags, nullptr);
  std::unique_ptr<Connection> connection(new Connection(database));
  if (code != SQLITE_OK)
    return FailedPrecondition("cannot open the store {}: {}", path, sqlite3_errstr(code));
  sqlite3_extended_result_codes(database, 1);
  sqlite3_busy_timeout(database, 10'000);
  // A commit is on the disk when it is answered: WAL with an fsync for each commit.
  TORUS_RETURN_IF_ERROR(
      connection->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
                          "PRAGMA cache_size=-4096;"));
  return connection;
}

Connection::~Connection() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(database_);
}

Result<Statement> Connection::Prepare(std::string_view sql) {
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v3(database_, sql.data(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &statement, nullptr) != SQLITE_OK)
      return LastError(database_);
    it = statements_.emplace(sql, statement).first;
  }
  return Statement(it->second);
}

Status Connection::Run(std::string_view sql) {
  TORUS_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  TORUS_RETURN_IF_ERROR(statement.Step());
  return {};
}

Status Connection::Execute(const char* sql) {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    return LastError(database_);
  return {};
}

Error LastError(sqlite3* database) {
  const int code = sqlite3_errcode(database);
  const char* file = sqlite3_db_filename(database, "main");
  const std::string where = file == nullptr ? "" : file;
  switch (code & 0xff) {
    case SQLITE_FULL:
      return ResourceExhausted(
          "The disk that holds the store {} is full; nothing was changed. Free some space and try "
          "again.",
          where);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return MakeError(Code::kDataLoss,
                       "The store {} is damaged: {}. Restore it from a copy, or start with another "
                       "--data-dir.",
                       where, sqlite3_errmsg(database));
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return FailedPrecondition("The store {} is not writable: {}.", where,
                                sqlite3_errmsg(database));
    case SQLITE_IOERR:
      return Unavailable(
          "The store {} could not be read or written: {}. The change is not in effect; see whether "
          "the disk is healthy (dmesg) and try again.",
          where, sqlite3_errmsg(database));
    default:
      return Internal("store {}: {} ({})", where, sqlite3_errmsg(database), code);
  }
}

}  // namespace torus::store
