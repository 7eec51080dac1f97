#include "service/gateway/registry.h"

#include <cassert>

#include "google/api/annotations.pb.h"

namespace torus::gateway {
namespace {

std::string RpcName(const google::protobuf::MethodDescriptor* method) {
  return "/" + method->service()->full_name() + "/" + method->name();
}

std::unique_ptr<Message> New(const google::protobuf::Descriptor* type) {
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

}  // namespace

std::string Method::name() const { return RpcName(descriptor); }
std::unique_ptr<Message> Method::NewRequest() const { return New(descriptor->input_type()); }
std::unique_ptr<Message> Method::NewResponse() const { return New(descriptor->output_type()); }

void Method::Call(std::unique_ptr<Message> request, Reply reply) const {
  if (call) return call(std::move(request), std::move(reply));
  reply(Unimplemented("{} is not implemented by this version of Torus.", descriptor->full_name()));
}

void Registry::AddService(const google::protobuf::ServiceDescriptor* service) {
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* descriptor = service->method(i);
    Method& method = methods_[RpcName(descriptor)];
    method.descriptor = descriptor;
    if (!descriptor->options().HasExtension(google::api::http)) continue;
    const google::api::HttpRule& rule = descriptor->options().GetExtension(google::api::http);
    method.http.push_back(rule);
    for (const auto& more : rule.additional_bindings()) method.http.push_back(more);
  }
}

void Registry::AddMixin(const google::protobuf::MethodDescriptor* descriptor,
                        google::api::HttpRule rule) {
  Method& method = methods_[RpcName(descriptor)];
  method.descriptor = descriptor;
  method.http.push_back(std::move(rule));
}

Method& Registry::MethodOf(std::string_view full_name) {
  std::string name = "/" + std::string(full_name);
  name[name.rfind('.')] = '/';
  const auto found = methods_.find(name);
  assert(found != methods_.end());
  return found->second;
}

const Method* Registry::Find(std::string_view name) const {
  const auto found = methods_.find(name);
  return found == methods_.end() ? nullptr : &found->second;
}

std::vector<const Method*> Registry::methods() const {
  std::vector<const Method*> all;
  for (const auto& [name, method] : methods_) all.push_back(&method);
  return all;
}

}  // namespace torus::gateway
