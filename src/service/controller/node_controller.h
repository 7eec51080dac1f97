// Brings nodes into line with their records: asks the backend to converge, and moves the record on
// by what it sees (model::AdvanceNode). Woken by commits, by the backend's news and by a slow
// resync; a crash at any point is followed by the same work.
#ifndef TORUS_SERVICE_CONTROLLER_NODE_CONTROLLER_H_
#define TORUS_SERVICE_CONTROLLER_NODE_CONTROLLER_H_

#include <functional>

#include "google/protobuf/timestamp.pb.h"
#include "service/backend/backend.h"
#include "service/controller/work_queue.h"
#include "service/store/store.h"

namespace torus::controller {

using Now = std::function<google::protobuf::Timestamp()>;

class NodeController {
 public:
  // Takes up every node of the store. `store` and `backend` are not owned and outlive it; it
  // becomes their listener.
  NodeController(store::Store& store, backend::Backend& backend, Now now);
  ~NodeController();

 private:
  std::optional<WorkQueue::Clock::duration> Reconcile(const std::string& name);
  Status Advance(const std::string& name, const model::Observation& seen);
  void WakeProject(const std::string& project);

  store::Store& store_;
  backend::Backend& backend_;
  const Now now_;
  WorkQueue queue_;  // the last member: its threads use the others
};

}  // namespace torus::controller

#endif  // TORUS_SERVICE_CONTROLLER_NODE_CONTROLLER_H_
