#include "service/api/tpu/nodes.h"

#include <algorithm>
#include <charconv>

#include "service/api/paging.h"
#include "service/api/tpu/translate.h"
#include "service/api/tpu/validate.h"
#include "service/model/node.h"
#include "service/model/operation.h"
#include "service/placement/slots.h"

namespace torus::api::tpu {
namespace {

// The free slot after `slot`, round and round, so that an address is not used again at once.
Result<int> NextSlot(store::View& view, int slot) {
  for (const int64_t from : {slot, 0}) {
    TORUS_ASSIGN_OR_RETURN(const auto next, view.FreeSlotAfter(from, placement::kMaxSlot));
    if (next) return static_cast<int>(*next);
  }
  return ResourceExhausted("All {} addresses of the network are in use; delete some nodes.",
                           placement::kMaxSlot);
}

// Hands the node a slot for each host.
Status TakeSlots(store::Transaction& transaction, int hosts, model::NodeRecord* node) {
  TORUS_ASSIGN_OR_RETURN(const int64_t last, transaction.LastSlot());
  int slot = static_cast<int>(last);
  for (int i = 0; i < hosts; ++i) {
    TORUS_ASSIGN_OR_RETURN(slot, NextSlot(transaction, slot));
    TORUS_RETURN_IF_ERROR(transaction.TakeSlot(slot, node->name()));
    auto* host = node->add_hosts();
    host->set_slot(slot);
    host->set_instance_id(model::NewId());
    host->set_host_name(fmt::format("t1v-n-{}-w-{}", node->uid().substr(0, 8), i));
  }
  return {};
}

// What upstream fills in where a request is silent.
void FillDefaults(const model::Location& location, model::NodeRecord* node) {
  const std::string region = location.zone.substr(0, location.zone.rfind('-'));
  auto* network = node->mutable_network();
  if (network->network().empty())
    network->set_network(fmt::format("projects/{}/global/networks/default", location.project));
  if (network->subnetwork().empty())
    network->set_subnetwork(
        fmt::format("projects/{}/regions/{}/subnetworks/default", location.project, region));
  auto* account = node->mutable_service_account();
  if (account->email().empty())
    account->set_email(fmt::format("{}-compute@developer.gserviceaccount.com",
                                   model::ProjectNumber(location.project)));
  if (account->scopes().empty())
    account->add_scopes("https://www.googleapis.com/auth/cloud-platform");
  if (node->cidr_block().empty()) node->set_cidr_block("10.128.0.0/20");
}

// Puts the node and a new operation for `verb` into the store.
Result<Operation> Begin(const Context& context, store::Transaction& transaction,
                        std::string_view verb, model::NodeRecord node) {
  const model::OperationRecord operation = model::BeginOperation(verb, context.now(), &node);
  TORUS_RETURN_IF_ERROR(transaction.Put(operation));
  TORUS_RETURN_IF_ERROR(transaction.Put(node));
  return ToWire(operation, *context.catalogue);
}

bool MatchesQuery(const model::Attribute& attribute, std::string_view query_path) {
  const size_t slash = query_path.find('/');
  const std::string_view key = slash == std::string_view::npos ? "" : query_path.substr(slash + 1);
  return (query_path.empty() || attribute.namespace_() == query_path.substr(0, slash)) &&
         (key.empty() || attribute.key() == key);
}

// The hosts that a request names; none or "" means all.
Result<std::vector<int>> WorkersOf(const model::NodeRecord& node,
                                   const v2::GetGuestAttributesRequest& request) {
  std::vector<int> workers;
  for (const std::string& id : request.worker_ids()) {
    if (id.empty()) continue;
    int worker = -1;
    const auto [end, bad] = std::from_chars(id.data(), id.data() + id.size(), worker);
    if (bad != std::errc() || end != id.data() + id.size() || worker < 0 ||
        worker >= node.hosts_size())
      return InvalidArgument("Worker id \"{}\" is not one of this node's: 0 to {}.", id,
                             node.hosts_size() - 1);
    workers.push_back(worker);
  }
  for (int i = 0; workers.empty() && i < node.hosts_size(); ++i) workers.push_back(i);
  return workers;
}

}  // namespace

Result<const hardware::Zone*> FindZone(const Context& context, const model::Location& location) {
  if (const auto* zone = context.catalogue->FindZone(location.zone)) return zone;
  return PermissionDenied(
      "Permission denied on 'locations/{}' (or it may not exist). The zones that exist here: "
      "`torus locations list`.",
      location.zone);
}

Result<model::NodeRecord> FindNode(store::View& view, std::string_view name) {
  TORUS_RETURN_IF_ERROR(model::ParseResource(name, "nodes"));
  TORUS_ASSIGN_OR_RETURN(auto node, view.Find<model::NodeRecord>(name));
  if (!node) return NotFound("Resource '{}' was not found", name);
  return *std::move(node);
}

Result<v2::ListNodesResponse> ListNodes(const Context& context, store::View& view,
                                        const v2::ListNodesRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto location, model::ParseLocation(request.parent()));
  if (!location.all_zones()) TORUS_RETURN_IF_ERROR(FindZone(context, location));
  TORUS_ASSIGN_OR_RETURN(const Page page, ParsePage(request.page_size(), request.page_token()));
  v2::ListNodesResponse response;
  const auto take = [&](const model::NodeRecord& node) {
    if (response.nodes_size() < page.size)
      *response.add_nodes() = ToWire(node, *context.catalogue);
    else
      response.set_next_page_token(PageToken(response.nodes().rbegin()->name()));
  };
  // One more than asked for tells whether there is another page.
  TORUS_RETURN_IF_ERROR(
      view.ForEach<model::NodeRecord>(location.prefix("nodes"), page.after, page.size + 1, take));
  return response;
}

Result<v2::Node> GetNode(const Context& context, store::View& view,
                         const v2::GetNodeRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto node, FindNode(view, request.name()));
  return ToWire(node, *context.catalogue);
}

Result<Operation> CreateNode(const Context& context, store::Transaction& transaction,
                             const v2::CreateNodeRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto location, model::ParseLocation(request.parent()));
  TORUS_ASSIGN_OR_RETURN(const hardware::Zone* zone, FindZone(context, location));
  TORUS_RETURN_IF_ERROR(model::CheckNodeId(request.node_id()));
  TORUS_ASSIGN_OR_RETURN(const hardware::AcceleratorType* type,
                         ChooseType(*context.catalogue, *zone, request.node()));
  TORUS_RETURN_IF_ERROR(CheckNode(*context.catalogue, *zone, request.node()));
  TORUS_RETURN_IF_ERROR(context.backend->Admit(*type));

  model::NodeRecord node;
  FromWire(request.node(), &node);
  node.set_name(model::ResourceName{location, "nodes", request.node_id()}.name());
  TORUS_ASSIGN_OR_RETURN(const auto existing, transaction.Find<model::NodeRecord>(node.name()));
  if (existing) return AlreadyExists("Resource '{}' already exists", node.name());
  node.set_uid(model::NewUid());
  node.set_id(model::NewId());
  node.set_state(model::CREATING);
  node.set_generation(1);
  *node.mutable_create_time() = context.now();
  node.set_accelerator_type(type->name);
  node.set_topology(type->topology.ToString());
  node.set_image(context.backend->ImageFor(node.runtime_version()));
  FillDefaults(location, &node);
  // No address to log in to where there is nothing to log in to.
  if (!context.backend->CheckLogin().ok()) node.mutable_network()->set_enable_external_ips(false);
  TORUS_RETURN_IF_ERROR(TakeSlots(transaction, type->hosts, &node));
  return Begin(context, transaction, "create", std::move(node));
}

Result<Operation> UpdateNode(const Context& context, store::Transaction& transaction,
                             const v2::UpdateNodeRequest& request) {
  TORUS_ASSIGN_OR_RETURN(auto node, FindNode(transaction, request.node().name()));
  TORUS_RETURN_IF_ERROR(model::CheckVerb("update", node.state()));
  TORUS_RETURN_IF_ERROR(ApplyUpdate(request, &node));
  model::BeginVerb("update", &node);
  return Begin(context, transaction, "update", std::move(node));
}

Result<Operation> ChangeNode(const Context& context, store::Transaction& transaction,
                             std::string_view verb, std::string_view name) {
  TORUS_ASSIGN_OR_RETURN(auto node, FindNode(transaction, name));
  TORUS_RETURN_IF_ERROR(model::CheckVerb(verb, node.state()));
  model::BeginVerb(verb, &node);
  return Begin(context, transaction, verb, std::move(node));
}

Result<v2::GetGuestAttributesResponse> GetGuestAttributes(
    const Context& context, store::View& view, const v2::GetGuestAttributesRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto node, FindNode(view, request.name()));
  TORUS_RETURN_IF_ERROR(context.backend->CheckLogin());
  TORUS_ASSIGN_OR_RETURN(const auto workers, WorkersOf(node, request));
  v2::GetGuestAttributesResponse response;
  for (const int worker : workers) {
    auto* attributes = response.add_guest_attributes();
    attributes->set_query_path(request.query_path());
    for (const auto& attribute : node.hosts(worker).guest_attributes()) {
      if (!MatchesQuery(attribute, request.query_path())) continue;
      auto* item = attributes->mutable_query_value()->add_items();
      item->set_namespace_(attribute.namespace_());
      item->set_key(attribute.key());
      item->set_value(attribute.value());
    }
  }
  return response;
}

}  // namespace torus::api::tpu
