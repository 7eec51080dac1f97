// What the APIs' handlers need besides the store. Nothing is owned; all of it outlives the
// registry.
#ifndef TORUS_SERVICE_API_CONTEXT_H_
#define TORUS_SERVICE_API_CONTEXT_H_

#include <functional>

#include "google/protobuf/timestamp.pb.h"
#include "hardware/catalogue.h"
#include "service/backend/backend.h"

namespace torus::api {

struct Context {
  const hardware::Catalogue* catalogue = nullptr;
  const backend::Backend* backend = nullptr;
  std::function<google::protobuf::Timestamp()> now;
};

}  // namespace torus::api

#endif  // TORUS_SERVICE_API_CONTEXT_H_
