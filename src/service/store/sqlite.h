// SQLite made safe to use: a connection that closes itself, prepared statements kept and reset,
// and errors as Status. Internal to store/. Thread-safety: one thread at a time.
#ifndef TORUS_SERVICE_STORE_SQLITE_H_
#define TORUS_SERVICE_STORE_SQLITE_H_

#include <sqlite3.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace torus::store {

// A prepared statement, lent by its connection for one execution: it is reset when it goes.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  Statement(const Statement&) = delete;
  ~Statement();

  // Parameters are numbered from 1. The text must live until the statement goes.
  Statement& Bind(int index, std::string_view text);
  Statement& BindBlob(int index, std::string_view bytes);
  Statement& Bind(int index, int64_t value);

  // The next row: true; the end: false.
  Result<bool> Step();
  std::string_view Text(int column) const;  // valid until the next Step
  int64_t Integer(int column) const;

 private:
  sqlite3_stmt* statement_;
};

class Connection {
 public:
  // Creates the file, for its owner only, where there is none. FAILED_PRECONDITION: not a database,
  // or not writable.
  static Result<std::unique_ptr<Connection>> Open(const std::string& path);
  ~Connection();
  Connection(const Connection&) = delete;

  Result<Statement> Prepare(std::string_view sql);
  // Runs one statement that returns no rows, prepared once. `sql` is a literal.
  Status Run(std::string_view sql);
  // Runs statements that return no rows and are not run again.
  Status Execute(const char* sql);
  // Whether a transaction that BEGIN opened is still open: some errors end it by themselves.
  bool InTransaction() const { return sqlite3_get_autocommit(database_) == 0; }

 private:
  explicit Connection(sqlite3* database) : database_(database) {}
  sqlite3* database_;
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

// The error that `database` met last. A full disk is RESOURCE_EXHAUSTED, and says where.
Error LastError(sqlite3* database);

}  // namespace torus::store

#endif  // TORUS_SERVICE_STORE_SQLITE_H_
