// gRPC for every method of the registry, by one generic service: the call's name finds the method.
// The server listens nowhere: the gateway hands it the connections that turn out to be gRPC's.
//
// Thread-safety: gRPC calls the service from its own threads; Take may be called from any.
#ifndef TORUS_SERVICE_GATEWAY_GRPC_SERVICE_H_
#define TORUS_SERVICE_GATEWAY_GRPC_SERVICE_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>

#include "service/gateway/registry.h"

namespace torus::gateway {

class GrpcService : public grpc::CallbackGenericService {
 public:
  // `registry` is not owned. Unless `refusal` is OK, it is the answer to every call.
  explicit GrpcService(const Registry& registry, Status refusal = {})
      : registry_(registry), refusal_(std::move(refusal)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
  const Status& refusal() const { return refusal_; }

 private:
  const Registry& registry_;
  const Status refusal_;
};

class GrpcServer {
 public:
  // A connection that is refused has ended after this time.
  static constexpr auto kRefusalTime = std::chrono::seconds(16);

  // Serves at once. `registry` is not owned; `refusal` as above. INTERNAL: gRPC does not start.
  static Result<std::unique_ptr<GrpcServer>> Start(const Registry& registry, Status refusal = {});

  // Serves a connected socket, which it owns from now on.
  void Take(int socket);

  // Takes no new call and ends those under way at `deadline`; Wait returns when all have ended.
  void Shutdown(std::chrono::system_clock::time_point deadline) { server_->Shutdown(deadline); }
  void Wait() { server_->Wait(); }

 private:
  GrpcServer(const Registry& registry, Status refusal) : service_(registry, std::move(refusal)) {}

  GrpcService service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_GRPC_SERVICE_H_
