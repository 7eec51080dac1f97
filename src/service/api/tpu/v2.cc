#include "service/api/tpu/v2.h"

#include "google/cloud/location/locations.pb.h"
#include "service/api/tpu/catalogue.h"
#include "service/api/tpu/nodes.h"
#include "service/api/tpu/operations.h"

namespace torus::api::tpu {
namespace {

using google::longrunning::Operation;
using google::protobuf::Empty;
using store::Transaction;
using store::View;

namespace longrunning = google::longrunning;
namespace location = google::cloud::location;

google::api::HttpRule Get(const std::string& path) {
  google::api::HttpRule rule;
  rule.set_get(path);
  return rule;
}

// The REST forms of the mixins, as the API's service configuration (tpu_v2.yaml) and its discovery
// document have them.
void AddMixins(gateway::Registry* registry) {
  const auto* operations = Operation::descriptor()->file()->FindServiceByName("Operations");
  const std::string one = "/v2/{name=projects/*/locations/*/operations/*}";
  registry->AddMixin(operations->FindMethodByName("ListOperations"),
                     Get("/v2/{name=projects/*/locations/*}/operations"));
  registry->AddMixin(operations->FindMethodByName("GetOperation"), Get(one));
  google::api::HttpRule erase;
  erase.set_delete_(one);
  registry->AddMixin(operations->FindMethodByName("DeleteOperation"), erase);
  google::api::HttpRule cancel;
  cancel.set_post(one + ":cancel");
  cancel.set_body("*");
  registry->AddMixin(operations->FindMethodByName("CancelOperation"), cancel);

  const auto* locations = location::Location::descriptor()->file()->FindServiceByName("Locations");
  registry->AddMixin(locations->FindMethodByName("ListLocations"),
                     Get("/v2/{name=projects/*}/locations"));
  registry->AddMixin(locations->FindMethodByName("GetLocation"),
                     Get("/v2/{name=projects/*/locations/*}"));
}

void RegisterNodes(const Context& context, gateway::Registry* registry) {
  registry->Read<v2::ListNodesRequest, v2::ListNodesResponse>(
      "google.cloud.tpu.v2.Tpu.ListNodes",
      [context](View& view, const auto& request) { return ListNodes(context, view, request); });
  registry->Read<v2::GetNodeRequest, v2::Node>(
      "google.cloud.tpu.v2.Tpu.GetNode",
      [context](View& view, const auto& request) { return GetNode(context, view, request); });
  registry->Write<v2::CreateNodeRequest, Operation>(
      "google.cloud.tpu.v2.Tpu.CreateNode",
      [context](Transaction& transaction, const auto& request) {
        return CreateNode(context, transaction, request);
      });
  registry->Write<v2::UpdateNodeRequest, Operation>(
      "google.cloud.tpu.v2.Tpu.UpdateNode",
      [context](Transaction& transaction, const auto& request) {
        return UpdateNode(context, transaction, request);
      });
  registry->Write<v2::DeleteNodeRequest, Operation>(
      "google.cloud.tpu.v2.Tpu.DeleteNode",
      [context](Transaction& transaction, const auto& request) {
        return ChangeNode(context, transaction, "delete", request.name());
      });
  registry->Write<v2::StopNodeRequest, Operation>(
      "google.cloud.tpu.v2.Tpu.StopNode", [context](Transaction& transaction, const auto& request) {
        return ChangeNode(context, transaction, "stop", request.name());
      });
  registry->Write<v2::StartNodeRequest, Operation>(
      "google.cloud.tpu.v2.Tpu.StartNode",
      [context](Transaction& transaction, const auto& request) {
        return ChangeNode(context, transaction, "start", request.name());
      });
  registry->Read<v2::GetGuestAttributesRequest, v2::GetGuestAttributesResponse>(
      "google.cloud.tpu.v2.Tpu.GetGuestAttributes", [context](View& view, const auto& request) {
        return GetGuestAttributes(context, view, request);
      });
}

void RegisterCatalogue(const Context& context, gateway::Registry* registry) {
  registry->Read<v2::ListAcceleratorTypesRequest, v2::ListAcceleratorTypesResponse>(
      "google.cloud.tpu.v2.Tpu.ListAcceleratorTypes",
      [context](View&, const auto& request) { return ListAcceleratorTypes(context, request); });
  registry->Read<v2::GetAcceleratorTypeRequest, v2::AcceleratorType>(
      "google.cloud.tpu.v2.Tpu.GetAcceleratorType",
      [context](View&, const auto& request) { return GetAcceleratorType(context, request); });
  registry->Read<v2::ListRuntimeVersionsRequest, v2::ListRuntimeVersionsResponse>(
      "google.cloud.tpu.v2.Tpu.ListRuntimeVersions",
      [context](View&, const auto& request) { return ListRuntimeVersions(context, request); });
  registry->Read<v2::GetRuntimeVersionRequest, v2::RuntimeVersion>(
      "google.cloud.tpu.v2.Tpu.GetRuntimeVersion",
      [context](View&, const auto& request) { return GetRuntimeVersion(context, request); });
  registry->Read<v2::GenerateServiceIdentityRequest, v2::GenerateServiceIdentityResponse>(
      "google.cloud.tpu.v2.Tpu.GenerateServiceIdentity",
      [](View&, const auto& request) { return GenerateServiceIdentity(request); });
  registry->Read<location::ListLocationsRequest, location::ListLocationsResponse>(
      "google.cloud.location.Locations.ListLocations",
      [context](View&, const auto& request) { return ListLocations(context, request); });
  registry->Read<location::GetLocationRequest, location::Location>(
      "google.cloud.location.Locations.GetLocation",
      [context](View&, const auto& request) { return GetLocation(context, request); });
}

void RegisterOperations(const Context& context, gateway::Registry* registry) {
  registry->Read<longrunning::ListOperationsRequest, longrunning::ListOperationsResponse>(
      "google.longrunning.Operations.ListOperations", [context](View& view, const auto& request) {
        return ListOperations(context, view, request);
      });
  registry->Read<longrunning::GetOperationRequest, Operation>(
      "google.longrunning.Operations.GetOperation",
      [context](View& view, const auto& request) { return GetOperation(context, view, request); });
  registry->Write<longrunning::DeleteOperationRequest, Empty>(
      "google.longrunning.Operations.DeleteOperation",
      [](Transaction& transaction, const auto& request) {
        return DeleteOperation(transaction, request);
      });
  registry->Write<longrunning::CancelOperationRequest, Empty>(
      "google.longrunning.Operations.CancelOperation",
      [](Transaction& transaction, const auto& request) {
        return CancelOperation(transaction, request);
      });
}

}  // namespace

void RegisterV2(const Context& context, gateway::Registry* registry) {
  registry->AddService(v2::Node::descriptor()->file()->FindServiceByName("Tpu"));
  AddMixins(registry);
  RegisterNodes(context, registry);
  RegisterCatalogue(context, registry);
  RegisterOperations(context, registry);
}

}  // namespace torus::api::tpu
