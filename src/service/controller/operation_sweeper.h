// Forgets operations that ended long ago, so that the store does not grow for ever.
#ifndef TORUS_SERVICE_CONTROLLER_OPERATION_SWEEPER_H_
#define TORUS_SERVICE_CONTROLLER_OPERATION_SWEEPER_H_

#include <cstdint>

#include "service/controller/node_controller.h"
#include "service/controller/work_queue.h"
#include "service/store/store.h"

namespace torus::controller {

// How long a done operation can be read, in seconds: 30 days, a choice of ours.
inline constexpr int64_t kKeepOperations = 30 * 24 * 3600;

// Erases the operations that were done `kKeepOperations` before `now`. Returns how many.
Result<int64_t> SweepOperations(store::Store& store, const google::protobuf::Timestamp& now);

// Sweeps at start and every hour. `store` is not owned and outlives it.
class OperationSweeper {
 public:
  OperationSweeper(store::Store& store, Now now);

 private:
  WorkQueue queue_;
};

}  // namespace torus::controller

#endif  // TORUS_SERVICE_CONTROLLER_OPERATION_SWEEPER_H_
