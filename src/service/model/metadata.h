// Instance metadata, a node's or a project's: what a key and a value may be.
// Pure. Thread-safety: free functions.
#ifndef TORUS_SERVICE_MODEL_METADATA_H_
#define TORUS_SERVICE_MODEL_METADATA_H_

#include <string>

#include "base/status.h"
#include "google/protobuf/map.h"

namespace torus::model {

// Compute Engine's bounds (docs, "Set and query metadata"): keys of 1 to 128 letters, digits, '-'
// and
// '_'; values of at most 256 KiB; 512 KiB in all. INVALID_ARGUMENT names the key.
Status CheckMetadata(const google::protobuf::Map<std::string, std::string>& metadata);

}  // namespace torus::model

#endif  // TORUS_SERVICE_MODEL_METADATA_H_
