// The store's schema, by version. Internal to store/.
#ifndef TORUS_SERVICE_STORE_SCHEMA_H_
#define TORUS_SERVICE_STORE_SCHEMA_H_

#include "base/status.h"
#include "service/store/sqlite.h"

namespace torus::store {

// Brings the file to this build's schema, one migration after another, in one transaction each.
// FAILED_PRECONDITION, and nothing changed, if the file is of a newer version.
Status Migrate(const std::string& path, Connection& connection);

}  // namespace torus::store

#endif  // TORUS_SERVICE_STORE_SCHEMA_H_
