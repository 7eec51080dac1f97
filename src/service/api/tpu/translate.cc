#include "service/api/tpu/translate.h"

#include "google/protobuf/empty.pb.h"
#include "service/model/names.h"
#include "service/placement/slots.h"

namespace torus::api::tpu {
namespace {

constexpr int kTpuPort = 8470;  // where upstream's endpoint says that a TPU's worker listens

// What the doctor finds that keeps the TPU from being used, on the first host that has any; or null.
const model::Symptom* ErrorOf(const model::NodeRecord& record) {
  for (const auto& host : record.hosts())
    for (const auto& symptom : host.symptoms())
      if (symptom.is_error()) return &symptom;
  return nullptr;
}

void SetHealth(const model::NodeRecord& record, v2::Node* node) {
  node->set_health_description(record.health_description());
  if (!record.health_description().empty()) {
    node->set_health(v2::Node::TIMEOUT);
  } else if (record.state() != model::READY) {
    node->set_health(v2::Node::HEALTH_UNSPECIFIED);
  } else if (const auto* error = ErrorOf(record)) {
    node->set_health(v2::Node::UNHEALTHY_TENSORFLOW);
    node->set_health_description(error->details().substr(0, error->details().find('\n')));
  } else {
    node->set_health(v2::Node::HEALTHY);
  }
}

void AddSymptoms(const model::NodeRecord& record, v2::Node* node) {
  for (int worker = 0; worker < record.hosts_size(); ++worker) {
    for (const auto& symptom : record.hosts(worker).symptoms()) {
      auto* added = node->add_symptoms();
      *added->mutable_create_time() = symptom.create_time();
      added->set_details(symptom.details());
      added->set_worker_id(std::to_string(worker));
    }
  }
}

void AddEndpoints(const model::NodeRecord& record, v2::Node* node) {
  if (record.state() == model::CREATING) return;
  for (const auto& host : record.hosts()) {
    auto* endpoint = node->add_network_endpoints();
    endpoint->set_ip_address(placement::AddressOf(host.slot()));
    endpoint->set_port(kTpuPort);
    if (record.network().enable_external_ips())
      endpoint->mutable_access_config()->set_external_ip(placement::AddressOf(host.slot()));
  }
}

void SetNetwork(const model::Network& network, v2::NetworkConfig* config) {
  config->set_network(network.network());
  config->set_subnetwork(network.subnetwork());
  config->set_enable_external_ips(network.enable_external_ips());
  config->set_can_ip_forward(network.can_ip_forward());
  config->set_queue_count(network.queue_count());
}

}  // namespace

v2::AcceleratorConfig::Type ToWire(const hardware::Generation& generation) {
  v2::AcceleratorConfig::Type type = v2::AcceleratorConfig::TYPE_UNSPECIFIED;
  v2::AcceleratorConfig::Type_Parse(generation.api_name, &type);
  return type;
}

v2::Node ToWire(const model::NodeRecord& record, const hardware::Catalogue& catalogue) {
  v2::Node node;
  node.set_name(record.name());
  node.set_description(record.description());
  node.set_accelerator_type(record.accelerator_type());
  node.set_state(static_cast<v2::Node::State>(record.state()));
  SetHealth(record, &node);
  AddSymptoms(record, &node);
  node.set_runtime_version(record.runtime_version());
  SetNetwork(record.network(), node.mutable_network_config());
  node.set_cidr_block(record.cidr_block());
  node.mutable_service_account()->set_email(record.service_account().email());
  *node.mutable_service_account()->mutable_scope() = record.service_account().scopes();
  *node.mutable_create_time() = record.create_time();
  auto* scheduling = node.mutable_scheduling_config();
  scheduling->set_preemptible(record.scheduling().preemptible());
  scheduling->set_reserved(record.scheduling().reserved());
  scheduling->set_spot(record.scheduling().spot());
  AddEndpoints(record, &node);
  *node.mutable_labels() = record.labels();
  *node.mutable_metadata() = record.metadata();
  *node.mutable_tags() = record.tags();
  node.set_id(record.id());
  for (const auto& disk : record.data_disks()) {
    auto* attached = node.add_data_disks();
    attached->set_source_disk(disk.source());
    attached->set_mode(static_cast<v2::AttachedDisk::DiskMode>(disk.mode()));
  }
  node.set_api_version(v2::Node::V2);
  node.mutable_shielded_instance_config()->set_enable_secure_boot(record.secure_boot());
  auto* config = node.mutable_accelerator_config();
  if (const auto* type = catalogue.FindAcceleratorType(record.accelerator_type()))
    config->set_type(ToWire(*type->generation));
  config->set_topology(record.topology());
  return node;
}

google::longrunning::Operation ToWire(const model::OperationRecord& record,
                                      const hardware::Catalogue& catalogue) {
  v2::OperationMetadata metadata;
  *metadata.mutable_create_time() = record.create_time();
  if (record.has_end_time()) *metadata.mutable_end_time() = record.end_time();
  metadata.set_target(record.target());
  metadata.set_verb(record.verb());
  metadata.set_status_detail(record.status_detail());
  metadata.set_cancel_requested(record.cancel_requested());
  metadata.set_api_version("v2");

  google::longrunning::Operation operation;
  operation.set_name(record.name());
  operation.mutable_metadata()->PackFrom(metadata);
  operation.set_done(record.done());
  if (!record.done()) return operation;
  if (record.error_code() != 0) {
    operation.mutable_error()->set_code(record.error_code());
    operation.mutable_error()->set_message(record.error_message());
  } else if (record.has_result()) {
    operation.mutable_response()->PackFrom(ToWire(record.result(), catalogue));
  } else {
    operation.mutable_response()->PackFrom(google::protobuf::Empty());
  }
  return operation;
}

void FromWire(const v2::Node& node, model::NodeRecord* record) {
  record->set_description(node.description());
  record->set_accelerator_type(node.accelerator_type());
  record->set_runtime_version(node.runtime_version());
  record->set_cidr_block(node.cidr_block());
  *record->mutable_labels() = node.labels();
  *record->mutable_metadata() = node.metadata();
  *record->mutable_tags() = node.tags();
  record->set_secure_boot(node.shielded_instance_config().enable_secure_boot());
  auto* scheduling = record->mutable_scheduling();
  scheduling->set_preemptible(node.scheduling_config().preemptible());
  scheduling->set_reserved(node.scheduling_config().reserved());
  scheduling->set_spot(node.scheduling_config().spot());
  auto* account = record->mutable_service_account();
  account->set_email(node.service_account().email());
  *account->mutable_scopes() = node.service_account().scope();
  for (const auto& attached : node.data_disks()) {
    auto* disk = record->add_data_disks();
    disk->set_source(attached.source_disk());
    disk->set_mode(attached.mode());
  }
  const v2::NetworkConfig& config =
      node.network_configs_size() > 0 ? node.network_configs(0) : node.network_config();
  auto* network = record->mutable_network();
  network->set_network(config.network());
  network->set_subnetwork(config.subnetwork());
  network->set_can_ip_forward(config.can_ip_forward());
  network->set_queue_count(config.queue_count());
  // A client that says nothing of the network gets a node that it can reach.
  const bool silent = !node.has_network_config() && node.network_configs_size() == 0;
  network->set_enable_external_ips(silent || config.enable_external_ips());
}

}  // namespace torus::api::tpu
