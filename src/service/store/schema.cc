#include "service/store/schema.h"

#include <array>

namespace torus::store {
namespace {

// Migration i brings a file from version i to i + 1 (PRAGMA user_version). A migration that has
// been released is never changed.
constexpr std::array kMigrations = {
    // Records by name; `body` is the record's message (proto/record.proto). Slots: a row for each
    // that is taken; `last_slot` is the cursor they are handed out from.
    R"sql(
      CREATE TABLE node (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
      CREATE TABLE operation (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
      CREATE TABLE project (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
      CREATE TABLE slot (slot INTEGER PRIMARY KEY, node TEXT NOT NULL);
      CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
      INSERT INTO counter VALUES ('last_slot', 0);
    )sql",
};

}  // namespace

Status Migrate(const std::string& path, Connection& connection) {
  int64_t version = 0;
  {
    TORUS_ASSIGN_OR_RETURN(Statement query, connection.Prepare("PRAGMA user_version"));
    TORUS_RETURN_IF_ERROR(query.Step());
    version = query.Integer(0);
  }
  if (version > static_cast<int64_t>(kMigrations.size()))
    return FailedPrecondition(
        "The store {} has schema version {}, and this build knows up to {}. Run the newer torus "
        "that wrote it, or start with another --data-dir.",
        path, version, kMigrations.size());
  for (size_t next = version; next < kMigrations.size(); ++next) {
    const std::string sql = fmt::format("BEGIN IMMEDIATE; {} PRAGMA user_version={}; COMMIT;",
                                        kMigrations[next], next + 1);
    TORUS_RETURN_IF_ERROR(connection.Execute(sql.c_str()));
  }
  return {};
}

}  // namespace torus::store
