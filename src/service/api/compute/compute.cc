#include "service/api/compute/compute.h"

#include "compute.pb.h"
#include "service/model/metadata.h"
#include "service/model/names.h"

namespace torus::api::compute {
namespace {

using torus::compute::v1::GetProjectRequest;
using torus::compute::v1::GlobalOperationRequest;
using torus::compute::v1::Metadata;
using torus::compute::v1::Operation;
using torus::compute::v1::Project;
using torus::compute::v1::SetCommonInstanceMetadataRequest;

std::string Fingerprint(const model::ProjectRecord& record) {
  return fmt::format("torus{:08}", record.generation());
}

Result<model::ProjectRecord> Load(store::View& view, std::string_view project) {
  const std::string name = fmt::format("projects/{}", project);
  TORUS_RETURN_IF_ERROR(model::ParseProject(name));
  TORUS_ASSIGN_OR_RETURN(auto record, view.Find<model::ProjectRecord>(name));
  if (record) return *std::move(record);
  model::ProjectRecord fresh;
  fresh.set_name(name);
  return fresh;
}

Result<Project> GetProject(store::View& view, const GetProjectRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto record, Load(view, request.project()));
  const int64_t number = model::ProjectNumber(request.project());
  Project project;
  project.set_kind("compute#project");
  project.set_id(std::to_string(number));
  project.set_name(request.project());
  project.set_default_service_account(
      fmt::format("{}-compute@developer.gserviceaccount.com", number));
  project.set_xpn_project_status("UNSPECIFIED_XPN_PROJECT_STATUS");
  Metadata* metadata = project.mutable_common_instance_metadata();
  metadata->set_kind("compute#metadata");
  metadata->set_fingerprint(Fingerprint(record));
  for (const auto& [key, value] : record.metadata()) {
    auto* item = metadata->add_items();
    item->set_key(key);
    item->set_value(value);
  }
  return project;
}

// Changes here are in effect when they are answered, so every operation is done.
Operation DoneOperation(std::string_view project, std::string_view name) {
  Operation operation;
  operation.set_kind("compute#operation");
  operation.set_id("1");
  operation.set_name(std::string(name));
  operation.set_operation_type("compute.projects.setCommonInstanceMetadata");
  operation.set_target_link(fmt::format("projects/{}", project));
  operation.set_status("DONE");
  operation.set_progress(100);
  operation.set_self_link(fmt::format("projects/{}/global/operations/{}", project, name));
  return operation;
}

Result<Operation> SetMetadata(store::Transaction& transaction,
                              const SetCommonInstanceMetadataRequest& request) {
  TORUS_ASSIGN_OR_RETURN(auto record, Load(transaction, request.project()));
  const std::string& fingerprint = request.metadata().fingerprint();
  if (!fingerprint.empty() && fingerprint != Fingerprint(record))
    return FailedPrecondition(
        "Supplied fingerprint does not match current metadata fingerprint. Read the project's "
        "metadata again and repeat the change.");
  record.clear_metadata();
  for (const auto& item : request.metadata().items()) {
    (*record.mutable_metadata())[item.key()] = item.value();
  }
  TORUS_RETURN_IF_ERROR(model::CheckMetadata(record.metadata()));
  record.set_generation(record.generation() + 1);
  TORUS_RETURN_IF_ERROR(transaction.Put(record));
  return DoneOperation(request.project(), fmt::format("operation-{}", record.generation()));
}

Result<Operation> GetOperation(store::View&, const GlobalOperationRequest& request) {
  return DoneOperation(request.project(), request.operation());
}

}  // namespace

void Register(gateway::Registry* registry) {
  registry->AddService(Project::descriptor()->file()->FindServiceByName("Compute"));
  registry->Read<GetProjectRequest, Project>("torus.compute.v1.Compute.GetProject", GetProject);
  registry->Write<SetCommonInstanceMetadataRequest, Operation>(
      "torus.compute.v1.Compute.SetCommonInstanceMetadata", SetMetadata);
  registry->Read<GlobalOperationRequest, Operation>("torus.compute.v1.Compute.GetGlobalOperation",
                                                    GetOperation);
  registry->Read<GlobalOperationRequest, Operation>("torus.compute.v1.Compute.WaitGlobalOperation",
                                                    GetOperation);
}

}  // namespace torus::api::compute
