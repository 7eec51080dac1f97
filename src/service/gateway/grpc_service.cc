#include "service/gateway/grpc_service.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include "base/fault.h"
#include "service/gateway/guard.h"

namespace torus::gateway {
namespace {

// The time that a refused client has: to begin, to be told, and to end.
constexpr int kRefusedStepMs = 5'000;

grpc::Status ToGrpc(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message()};
}

// One unary call. Deletes itself when gRPC is done with it.
class Call : public grpc::ServerGenericBidiReactor {
 public:
  Call(const Method* method, Status refused) : method_(method) {
    if (!refused.ok())
      Finish(ToGrpc(refused));
    else
      StartRead(&buffer_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(ToGrpc(InvalidArgument("The call carries no request message.")));
    auto request = method_->NewRequest();
    const grpc::Status parsed =
        grpc::SerializationTraits<Message>::Deserialize(&buffer_, request.get());
    if (!parsed.ok())
      return Finish(ToGrpc(InvalidArgument("The request is not a {}.", request->GetTypeName())));
    method_->Call(std::move(request), [this](Result<std::unique_ptr<Message>> response) {
      Reply(std::move(response));
    });
  }

  void OnDone() override {
    FaultPoint("gateway.replied");
    delete this;
  }

 private:
  void Reply(Result<std::unique_ptr<Message>> response) {
    if (!response) return Finish(ToGrpc(response.error()));
    bool own_buffer = false;
    const grpc::Status written =
        grpc::SerializationTraits<Message>::Serialize(**response, &buffer_, &own_buffer);
    if (!written.ok()) return Finish(written);
    FaultPoint("gateway.reply");
    StartWriteAndFinish(&buffer_, {}, grpc::Status::OK);
  }

  const Method* method_;
  grpc::ByteBuffer buffer_;
};

}  // namespace

grpc::ServerGenericBidiReactor* GrpcService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  const Method* method = registry_.Find(context->method());
  Status refused = refusal_.ok() ? CheckHeaders(context->host(), {}) : refusal_;
  if (refused.ok() && method == nullptr)
    refused = Unimplemented("Unknown method {}.", context->method());
  return new Call(method, std::move(refused));
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Registry& registry, Status refusal) {
  std::unique_ptr<GrpcServer> server(new GrpcServer(registry, std::move(refusal)));
  grpc::ServerBuilder builder;
  if (!server->service_.refusal().ok()) {
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kRefusedStepMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kRefusedStepMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kRefusedStepMs);
  }
  builder.RegisterCallbackGenericService(&server->service_);
  server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  server->server_ = builder.BuildAndStart();
  if (!server->server_) return Internal("gRPC did not start");
  return server;
}

void GrpcServer::Take(int socket) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket;
  acceptor_->HandleNewConnection(&connection);
}

}  // namespace torus::gateway
