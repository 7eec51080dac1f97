#include "service/api/tpu/catalogue.h"

#include <algorithm>
#include <set>

#include "service/api/paging.h"
#include "service/api/tpu/nodes.h"
#include "service/api/tpu/translate.h"
#include "service/model/names.h"

namespace torus::api::tpu {
namespace {

namespace location = google::cloud::location;

Status RefuseFilter(std::string_view filter, std::string_view order_by = {}) {
  if (filter.empty() && order_by.empty()) return {};
  return InvalidArgument("filter and order_by are not supported; list all and filter the answer.");
}

v2::AcceleratorType ToWire(const model::Location& location, const hardware::AcceleratorType& type) {
  v2::AcceleratorType wire;
  wire.set_name(model::ResourceName{location, "acceleratorTypes", type.name}.name());
  wire.set_type(type.name);
  auto* config = wire.add_accelerator_configs();
  config->set_type(tpu::ToWire(*type.generation));
  config->set_topology(type.topology.ToString());
  return wire;
}

v2::RuntimeVersion ToWire(const model::Location& location,
                          const hardware::RuntimeVersion& version) {
  v2::RuntimeVersion wire;
  wire.set_name(model::ResourceName{location, "runtimeVersions", version.name}.name());
  wire.set_version(version.name);
  return wire;
}

location::Location ToWire(std::string_view project, const hardware::Zone& zone) {
  location::Location wire;
  wire.set_name(fmt::format("projects/{}/locations/{}", project, zone.name));
  wire.set_location_id(zone.name);
  return wire;
}

template <typename Rows>
std::set<std::string> Names(const Rows& rows) {
  std::set<std::string> names;
  for (const auto& row : rows) names.insert(row.name);
  return names;
}

const std::string& Itself(const std::string& name) { return name; }

}  // namespace

Result<v2::ListAcceleratorTypesResponse> ListAcceleratorTypes(
    const Context& context, const v2::ListAcceleratorTypesRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto location, model::ParseLocation(request.parent()));
  TORUS_ASSIGN_OR_RETURN(const auto* zone, FindZone(context, location));
  TORUS_RETURN_IF_ERROR(RefuseFilter(request.filter(), request.order_by()));
  TORUS_ASSIGN_OR_RETURN(const Page page, ParsePage(request.page_size(), request.page_token()));
  const std::set<std::string> names(zone->accelerator_types.begin(), zone->accelerator_types.end());
  v2::ListAcceleratorTypesResponse response;
  response.set_next_page_token(TakePage(page, names, Itself, [&](const std::string& name) {
    *response.add_accelerator_types() =
        ToWire(location, *context.catalogue->FindAcceleratorType(name));
  }));
  return response;
}

Result<v2::AcceleratorType> GetAcceleratorType(const Context& context,
                                               const v2::GetAcceleratorTypeRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto name, model::ParseResource(request.name(), "acceleratorTypes"));
  TORUS_ASSIGN_OR_RETURN(const auto* zone, FindZone(context, name.location));
  const auto* type = context.catalogue->FindAcceleratorType(name.id);
  if (type == nullptr || !context.catalogue->Offers(*zone, *type))
    return NotFound("Resource '{}' was not found", request.name());
  return ToWire(name.location, *type);
}

Result<v2::ListRuntimeVersionsResponse> ListRuntimeVersions(
    const Context& context, const v2::ListRuntimeVersionsRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto location, model::ParseLocation(request.parent()));
  TORUS_RETURN_IF_ERROR(FindZone(context, location));
  TORUS_RETURN_IF_ERROR(RefuseFilter(request.filter(), request.order_by()));
  TORUS_ASSIGN_OR_RETURN(const Page page, ParsePage(request.page_size(), request.page_token()));
  v2::ListRuntimeVersionsResponse response;
  response.set_next_page_token(TakePage(
      page, Names(context.catalogue->runtime_versions()), Itself, [&](const std::string& name) {
        *response.add_runtime_versions() =
            ToWire(location, *context.catalogue->FindRuntimeVersion(name));
      }));
  return response;
}

Result<v2::RuntimeVersion> GetRuntimeVersion(const Context& context,
                                             const v2::GetRuntimeVersionRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto name, model::ParseResource(request.name(), "runtimeVersions"));
  TORUS_RETURN_IF_ERROR(FindZone(context, name.location));
  const auto* version = context.catalogue->FindRuntimeVersion(name.id);
  if (version == nullptr) return NotFound("Resource '{}' was not found", request.name());
  return ToWire(name.location, *version);
}

Result<v2::GenerateServiceIdentityResponse> GenerateServiceIdentity(
    const v2::GenerateServiceIdentityRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto location, model::ParseLocation(request.parent()));
  v2::GenerateServiceIdentityResponse response;
  response.mutable_identity()->set_email(fmt::format("service-{}@cloud-tpu.iam.gserviceaccount.com",
                                                     model::ProjectNumber(location.project)));
  return response;
}

Result<location::ListLocationsResponse> ListLocations(
    const Context& context, const location::ListLocationsRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto project, model::ParseProject(request.name()));
  TORUS_RETURN_IF_ERROR(RefuseFilter(request.filter()));
  TORUS_ASSIGN_OR_RETURN(const Page page, ParsePage(request.page_size(), request.page_token()));
  location::ListLocationsResponse response;
  response.set_next_page_token(
      TakePage(page, Names(context.catalogue->zones()), Itself, [&](const std::string& name) {
        *response.add_locations() = ToWire(project, *context.catalogue->FindZone(name));
      }));
  return response;
}

Result<location::Location> GetLocation(const Context& context,
                                       const location::GetLocationRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto name, model::ParseLocation(request.name()));
  TORUS_ASSIGN_OR_RETURN(const auto* zone, FindZone(context, name));
  return ToWire(name.project, *zone);
}

}  // namespace torus::api::tpu
