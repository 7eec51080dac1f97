#include "worker/tpu_api.h"

#include <fmt/format.h>

#include "base/json.h"

namespace torus::worker {
namespace {

using Json = nlohmann::json;

constexpr int kWorkerPort = 8470;  // where upstream's TPU workers listen

MetadataNode Leaf(const Json& json) { return MetadataNode::Leaf(DumpJson(json), json); }

// The one method, and the one field of it that clients look at before they call: what it returns.
Json Discovery() {
  constexpr char kRoot[] = "http://metadata.google.internal/";
  const Json get = {
      {"id", "tpu.projects.locations.nodes.get"},
      {"path", "v1/{+name}"},
      {"flatPath", "v1/projects/{projectsId}/locations/{locationsId}/nodes/{nodesId}"},
      {"httpMethod", "GET"},
      {"parameterOrder", {"name"}},
      {"parameters", {{"name", {{"location", "path"}, {"required", true}, {"type", "string"}}}}},
      {"response", {{"$ref", "Node"}}}};
  const Json nodes = {{"methods", {{"get", get}}}};
  const Json locations = {{"resources", {{"nodes", nodes}}}};
  const Json projects = {{"resources", {{"locations", locations}}}};
  return {
      {"kind", "discovery#restDescription"},
      {"name", "tpu"},
      {"version", "v1"},
      {"rootUrl", kRoot},
      {"baseUrl", kRoot},
      {"servicePath", ""},
      {"batchPath", "batch"},
      {"parameters", Json::object()},
      {"schemas", {{"Node", {{"id", "Node"}, {"type", "object"}, {"properties", Json::object()}}}}},
      {"resources", {{"projects", projects}}}};
}

std::string NodeName(const VmSpec& vm) {
  return fmt::format("projects/{}/locations/{}/nodes/{}", vm.project(), vm.zone(), vm.node_id());
}

// Who can ask runs in the VM, so the node is READY.
Json Node(const VmSpec& vm) {
  Json endpoints = Json::array();
  for (const std::string& address : vm.worker_addresses())
    endpoints.push_back({{"ipAddress", address}, {"port", kWorkerPort}});
  return {{"name", NodeName(vm)},
          {"acceleratorType", vm.accelerator_type()},
          {"state", "READY"},
          {"health", "HEALTHY"},
          {"tensorflowVersion", vm.runtime_version()},
          {"ipAddress", vm.address()},
          {"port", fmt::format("{}", kWorkerPort)},
          {"networkEndpoints", endpoints},
          {"apiVersion", "V1"}};
}

}  // namespace

MetadataNode TpuApi(const VmSpec& vm) {
  MetadataNode api;
  api.children["discovery"].children["tpu"] = Leaf(Discovery());
  MetadataNode* parent = &api.children["v1"];
  const std::string name = NodeName(vm);
  std::string_view rest = name;
  for (size_t slash; (slash = rest.find('/')) != std::string_view::npos;) {
    parent = &parent->children[std::string(rest.substr(0, slash))];
    rest.remove_prefix(slash + 1);
  }
  parent->children[std::string(rest)] = Leaf(Node(vm));
  return api;
}

MetadataAnswer NoSuchNode(const MetadataNode& api, std::string_view path) {
  std::string own;
  for (const MetadataNode* node = &api.children.at("v1"); !node->children.empty();
       node = &node->children.begin()->second)
    own += "/" + node->children.begin()->first;
  const Json error = {
      {"code", 404},
      {"status", "NOT_FOUND"},
      {"message", fmt::format("Resource '{}' was not found. Inside a TPU VM only its own node can "
                              "be looked up, '{}': name that as the TPU.",
                              path, own.substr(1))}};
  return {.status = 404, .content_type = "application/json", .body = DumpJson({{"error", error}})};
}

}  // namespace torus::worker
