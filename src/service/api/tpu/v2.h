// The Cloud TPU API, version 2: registers its service, with the Operations and Locations mixins.
#ifndef TORUS_SERVICE_API_TPU_V2_H_
#define TORUS_SERVICE_API_TPU_V2_H_

#include "service/api/context.h"
#include "service/gateway/registry.h"

namespace torus::api::tpu {

void RegisterV2(const Context& context, gateway::Registry* registry);

}  // namespace torus::api::tpu

#endif  // TORUS_SERVICE_API_TPU_V2_H_
