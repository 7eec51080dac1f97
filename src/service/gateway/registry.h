// The registry of API methods: one entry a method, whatever door a call comes in by.
//
// A handler is a function of a request and of the store: of a snapshot if it reads, of a
// transaction if it writes. It validates and returns the answer; it does no other work, so that a
// request never waits for a worker. gRPC (grpc_service.h) and REST (rest.h) find methods here.
//
// Thread-safety: build it first; then it is immutable and may be used from any thread.
#ifndef TORUS_SERVICE_GATEWAY_REGISTRY_H_
#define TORUS_SERVICE_GATEWAY_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "google/api/http.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "service/store/store.h"

namespace torus::gateway {

using google::protobuf::Message;
using Reply = std::function<void(Result<std::unique_ptr<Message>>)>;

struct Method {
  const google::protobuf::MethodDescriptor* descriptor = nullptr;
  std::vector<google::api::HttpRule> http;  // every REST form of it
  // Takes the request; replies once, on this thread or the store's writer. Empty: no body yet.
  std::function<void(std::unique_ptr<Message>, Reply)> call;

  std::string name() const;  // "/google.cloud.tpu.v2.Tpu/GetNode", as gRPC spells it
  std::unique_ptr<Message> NewRequest() const;
  std::unique_ptr<Message> NewResponse() const;
  // As `call`; a method without a body replies UNIMPLEMENTED with its name.
  void Call(std::unique_ptr<Message> request, Reply reply) const;
};

class Registry {
 public:
  // `store` is not owned and outlives the registry.
  explicit Registry(store::Store& store) : store_(store) {}

  // Adds every method of a service with the REST forms its HttpRule annotations give.
  void AddService(const google::protobuf::ServiceDescriptor* service);
  // Adds one method of a mixin (Operations, Locations) in the REST form of the API that mixes it
  // in.
  void AddMixin(const google::protobuf::MethodDescriptor* method, google::api::HttpRule rule);

  // Gives a method of a service added before its body. Requires: `name` is such a method, as
  // "google.cloud.tpu.v2.Tpu.GetNode", with these types.
  template <typename Request, typename Response>
  void Read(std::string_view name,
            std::function<Result<Response>(store::View&, const Request&)> handler) {
    MethodOf(name).call = [this, handler](std::unique_ptr<Message> request, Reply reply) {
      const auto& typed = static_cast<const Request&>(*request);
      reply(Boxed(store_.Read([&](store::View& view) { return handler(view, typed); })));
    };
  }
  template <typename Request, typename Response>
  void Write(std::string_view name,
             std::function<Result<Response>(store::Transaction&, const Request&)> handler) {
    MethodOf(name).call = [this, handler](std::unique_ptr<Message> request, Reply reply) {
      auto response = std::make_shared<Response>();
      store_.Write(
          [handler, response, request = std::shared_ptr<Message>(std::move(request))](
              store::Transaction& transaction) {
            auto result = handler(transaction, static_cast<const Request&>(*request));
            if (!result) return std::move(result).error();
            *response = *std::move(result);
            return Status();
          },
          [response, reply = std::move(reply)](Status status) {
            if (!status.ok()) return reply(Error(std::move(status)));
            reply(std::make_unique<Response>(std::move(*response)));
          });
    };
  }

  // nullptr: no such method. `name` as Method::name().
  const Method* Find(std::string_view name) const;
  std::vector<const Method*> methods() const;

 private:
  template <typename Response>
  static Result<std::unique_ptr<Message>> Boxed(Result<Response> result) {
    if (!result) return Error(std::move(result).error());
    return std::make_unique<Response>(*std::move(result));
  }
  Method& MethodOf(std::string_view full_name);

  store::Store& store_;
  std::map<std::string, Method, std::less<>> methods_;  // by Method::name()
};

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_REGISTRY_H_
