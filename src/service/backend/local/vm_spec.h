// What a worker is told of its VM, from the node's record. Pure. Thread-safety: free functions.
#ifndef TORUS_SERVICE_BACKEND_LOCAL_VM_SPEC_H_
#define TORUS_SERVICE_BACKEND_LOCAL_VM_SPEC_H_

#include "record.pb.h"
#include "worker.pb.h"

namespace torus::backend {

// The order for host `index` of the node. Its number grows with every change of the node or of the
// project's metadata: it is the sum of both generations.
worker::WorkerOrder OrderFor(const model::NodeRecord& node, const model::ProjectRecord& project,
                             int index);

// The node's generation that is surely in effect when a worker has reached order `number`.
int64_t NodeGenerationAt(int64_t number, const model::NodeRecord& node,
                         const model::ProjectRecord& project);

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_LOCAL_VM_SPEC_H_
