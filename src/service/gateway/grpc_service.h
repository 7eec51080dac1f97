// gRPC for every method of the registry, by one generic service: the call's name finds the method.
// Thread-safety: gRPC calls it from its own threads.
#ifndef TORUS_SERVICE_GATEWAY_GRPC_SERVICE_H_
#define TORUS_SERVICE_GATEWAY_GRPC_SERVICE_H_

#include <grpcpp/generic/async_generic_service.h>

#include "service/gateway/registry.h"

namespace torus::gateway {

class GrpcService : public grpc::CallbackGenericService {
 public:
  // `registry` is not owned.
  explicit GrpcService(const Registry& registry) : registry_(registry) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  const Registry& registry_;
};

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_GRPC_SERVICE_H_
