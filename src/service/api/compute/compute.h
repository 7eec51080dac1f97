// The part of the Compute Engine API that `gcloud … tpu-vm ssh` and `scp` call
// (proto/compute.proto): a project's common instance metadata, where gcloud looks for ssh keys that
// hold for every node.
#ifndef TORUS_SERVICE_API_COMPUTE_COMPUTE_H_
#define TORUS_SERVICE_API_COMPUTE_COMPUTE_H_

#include "service/gateway/registry.h"

namespace torus::api::compute {

void Register(gateway::Registry* registry);

}  // namespace torus::api::compute

#endif  // TORUS_SERVICE_API_COMPUTE_COMPUTE_H_
