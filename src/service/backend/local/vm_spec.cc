#include "service/backend/local/vm_spec.h"

#include <algorithm>

#include "service/model/names.h"
#include "service/model/node.h"
#include "service/placement/slots.h"

namespace torus::backend {
namespace {

worker::Desired ToWire(model::Desired desired) {
  switch (desired) {
    case model::Desired::kStop:
      return worker::STOP;
    case model::Desired::kDelete:
      return worker::DELETE;
    default:
      return worker::RUN;
  }
}

void Describe(const model::NodeRecord& node, const model::ProjectRecord& project, int index,
              worker::VmSpec* vm) {
  const auto name = model::ParseResource(node.name(), "nodes").value_or(model::ResourceName());
  const model::Host& host = node.hosts(index);
  vm->set_project(name.location.project);
  vm->set_project_number(model::ProjectNumber(name.location.project));
  vm->set_zone(name.location.zone);
  vm->set_node_id(name.id);
  vm->set_node_uid(node.uid());
  vm->set_instance_id(host.instance_id());
  vm->set_worker_index(index);
  vm->set_host_name(host.host_name());
  vm->set_accelerator_type(node.accelerator_type());
  vm->set_topology(node.topology());
  vm->set_runtime_version(node.runtime_version());
  for (const auto& each : node.hosts()) vm->add_worker_addresses(placement::AddressOf(each.slot()));
  vm->set_service_account_email(node.service_account().email());
  vm->set_network(node.network().network());
  vm->set_address(placement::AddressOf(host.slot()));
  vm->set_uid_base(placement::UidBaseOf(host.slot()));
  *vm->mutable_metadata() = node.metadata();
  *vm->mutable_project_metadata() = project.metadata();
  *vm->mutable_labels() = node.labels();
  *vm->mutable_tags() = node.tags();
  vm->set_preemptible(node.scheduling().preemptible() || node.scheduling().spot());
}

}  // namespace

worker::WorkerOrder OrderFor(const model::NodeRecord& node, const model::ProjectRecord& project,
                             int index) {
  worker::WorkerOrder order;
  order.set_generation(node.generation() + project.generation());
  order.set_desired(ToWire(model::DesiredOf(node.state())));
  if (order.desired() == worker::RUN) Describe(node, project, index, order.mutable_vm());
  return order;
}

// An order that held generation g of the node had the number g + p of the project's generation p
// then, and p only grows: so a number of g + (p of now) or more surely held it.
int64_t NodeGenerationAt(int64_t number, const model::NodeRecord& node,
                         const model::ProjectRecord& project) {
  return std::min(node.generation(), number - project.generation());
}

}  // namespace torus::backend
