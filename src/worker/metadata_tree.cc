#include "worker/metadata_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/json.h"
#include "worker/guest_files.h"
#include "worker/network.h"
#include "worker/tpu_api.h"

namespace torus::worker {
namespace {

using Json = nlohmann::json;
using Node = MetadataNode;

constexpr std::string_view kPrefix = "/computeMetadata/v1";
constexpr char kOutside[] = "/";  // the child that holds what is not below the prefix
constexpr char kScope[] = "https://www.googleapis.com/auth/cloud-platform";
// What a client gets as its credentials. Torus's own service does not look at it, and no real API
// takes it.
constexpr char kToken[] = "torus-local-token";
constexpr int kTokenSeconds = 3599;

Node Number(int64_t value) { return Node::Leaf(fmt::format("{}", value), value); }

// Text: one a line. JSON: a list.
Node Lines(const std::vector<std::string>& values) {
  return Node::Leaf(fmt::format("{}\n", fmt::join(values, "\n")), values);
}

// JSON in both forms.
Node List(const Json& values) { return Node::Leaf(DumpJson(values), values); }

Node Hidden(Node node) {
  node.hidden = true;
  return node;
}

Node Attributes(const std::map<std::string, std::string>& values) {
  Node node;
  node.verbatim = true;
  for (const auto& [name, value] : values) node.children[name] = Node::Leaf(value);
  return node;
}

Node InstanceAttributes(const VmSpec& vm, int64_t memory_limit) {
  std::vector<std::string> endpoints;
  for (const std::string& address : vm.worker_addresses())
    endpoints.push_back("unknown:unknown:" + address);
  std::map<std::string, std::string> values = NodeMetadata(vm);
  // Ours win: frameworks find their slice by them.
  values["accelerator-type"] = vm.accelerator_type();
  values["agent-worker-number"] = fmt::format("{}", vm.worker_index());
  values["worker-network-endpoints"] = fmt::format("{}", fmt::join(endpoints, ","));
  values["tpu-env"] = SliceText(vm, memory_limit);
  values["instance-id"] = vm.node_id();
  return Attributes(values);
}

Node ServiceAccount(const VmSpec& vm) {
  const Json token = {
      {"access_token", kToken}, {"expires_in", kTokenSeconds}, {"token_type", "Bearer"}};
  Node account;
  account.children["aliases"] = Lines({"default"});
  account.children["email"] = Node::Leaf(vm.service_account_email());
  account.children["scopes"] = Lines({kScope});
  account.children["token"] = Hidden(List(token));
  account.children["identity"] = Hidden(Node::Leaf(kToken));
  return account;
}

Node NetworkInterface(const VmSpec& vm) {
  Node access;
  access.children["external-ip"] = Node::Leaf(vm.address());
  access.children["type"] = Node::Leaf("ONE_TO_ONE_NAT");
  Node configs{.kind = Node::Kind::kList};
  configs.children["0"] = access;
  Node interface;
  interface.children["access-configs"] = configs;
  interface.children["ip"] = Node::Leaf(vm.address());
  interface.children["mac"] = Node::Leaf(MacAddress(vm.address()));
  interface.children["gateway"] = Node::Leaf(kGateway);
  interface.children["subnetmask"] = Node::Leaf("255.255.255.255");
  interface.children["network"] = Node::Leaf(vm.network());
  Node interfaces{.kind = Node::Kind::kList};
  interfaces.children["0"] = interface;
  return interfaces;
}

Node Instance(const VmSpec& vm, int64_t memory_limit) {
  const std::string project = fmt::format("projects/{}", vm.project_number());
  const auto truth = [](bool value) { return Node::Leaf(value ? "TRUE" : "FALSE"); };
  Node scheduling;
  scheduling.children["preemptible"] = truth(vm.preemptible());
  scheduling.children["automatic-restart"] = truth(!vm.preemptible());
  scheduling.children["on-host-maintenance"] = Node::Leaf("TERMINATE");
  Node accounts;
  accounts.verbatim = true;
  accounts.children["default"] = ServiceAccount(vm);
  if (!vm.service_account_email().empty())
    accounts.children[vm.service_account_email()] = ServiceAccount(vm);
  Node instance;
  instance.children = {
      {"attributes", InstanceAttributes(vm, memory_limit)},
      {"id", Number(vm.instance_id())},
      {"name", Node::Leaf(vm.host_name())},
      {"hostname", Node::Leaf(FullHostName(vm))},
      {"zone", Node::Leaf(fmt::format("{}/zones/{}", project, vm.zone()))},
      {"machine-type",
       Node::Leaf(fmt::format("{}/machineTypes/{}", project, vm.accelerator_type()))},
      {"image", Node::Leaf(vm.runtime_version())},
      {"tags", List(std::vector<std::string>(vm.tags().begin(), vm.tags().end()))},
      {"network-interfaces", NetworkInterface(vm)},
      {"scheduling", scheduling},
      {"preempted", truth(false)},
      {"maintenance-event", Node::Leaf("NONE")},
      {"service-accounts", accounts},
  };
  return instance;
}

// "network-interfaces" as JSON has it: "networkInterfaces".
std::string CamelCase(std::string_view name) {
  std::string camel;
  bool upper = false;
  for (const char c : name) {
    if (c == '-') {
      upper = true;
    } else {
      camel += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      upper = false;
    }
  }
  return camel;
}

Json ToJson(const Node& node) {
  if (node.kind == Node::Kind::kLeaf) return node.json.is_null() ? Json(node.text) : node.json;
  Json json = node.kind == Node::Kind::kList ? Json::array() : Json::object();
  for (const auto& [name, child] : node.children) {
    if (child.hidden) continue;
    if (node.kind == Node::Kind::kList) {
      json.push_back(ToJson(child));
    } else {
      json[node.verbatim ? name : CamelCase(name)] = ToJson(child);
    }
  }
  return json;
}

// "instance/id 42\n" for each leaf below.
void ToText(const Node& node, const std::string& path, std::string& text) {
  if (node.kind == Node::Kind::kLeaf) {
    text += fmt::format("{} {}\n", path, node.text);
    return;
  }
  for (const auto& [name, child] : node.children)
    if (!child.hidden) ToText(child, path.empty() ? name : path + "/" + name, text);
}

const Node* Find(const Node& tree, std::string_view path) {
  const Node* node = &tree;
  while (node != nullptr && !path.empty()) {
    const size_t slash = path.find('/');
    const auto child = node->children.find(std::string(path.substr(0, slash)));
    node = child == node->children.end() ? nullptr : &child->second;
    path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
  }
  return node;
}

std::string Decode(std::string_view text, bool plus_is_space) {
  const auto digit = [](char c) {
    return std::isdigit(static_cast<unsigned char>(c))
               ? c - '0'
               : std::tolower(static_cast<unsigned char>(c)) - 'a' + 10;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() &&
        std::isxdigit(static_cast<unsigned char>(text[i + 1])) &&
        std::isxdigit(static_cast<unsigned char>(text[i + 2]))) {
      decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

MetadataAnswer Directory(const Node& node, const MetadataRequest& request) {
  const auto alt = request.query.find("alt");
  const bool text = alt != request.query.end() && alt->second == "text";
  MetadataAnswer answer;
  if (request.Flag("recursive") && text) {
    ToText(node, "", answer.body);
  } else if (request.Flag("recursive")) {
    answer.content_type = "application/json";
    answer.body = DumpJson(ToJson(node));
  } else {
    for (const auto& [name, child] : node.children)
      if (name != kOutside) answer.body += name + (child.kind == Node::Kind::kLeaf ? "\n" : "/\n");
  }
  return answer;
}

}  // namespace

Node Node::Leaf(std::string text) { return Leaf(std::move(text), Json()); }

Node Node::Leaf(std::string text, Json json) {
  Node node;
  node.kind = Kind::kLeaf;
  node.text = std::move(text);
  node.json = std::move(json);
  return node;
}

MetadataNode MetadataTree(const VmSpec& vm, int64_t memory_limit) {
  Node project;
  project.children = {{"project-id", Node::Leaf(vm.project())},
                      {"numeric-project-id", Number(vm.project_number())},
                      {"attributes", Attributes(ProjectMetadata(vm))}};
  Node universe;
  universe.children = {{"universe-domain", Node::Leaf("googleapis.com")}};
  Node tree;
  tree.children = {{"instance", Instance(vm, memory_limit)},
                   {"project", project},
                   {"universe", universe},
                   {kOutside, Hidden(TpuApi(vm))}};
  return tree;
}

bool MetadataRequest::Flag(const std::string& name) const {
  const auto found = query.find(name);
  if (found == query.end()) return false;
  std::string value = found->second;
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
  return value == "true";
}

MetadataRequest ParseTarget(std::string_view target) {
  MetadataRequest request;
  // A proxy's client sends the whole address.
  if (const size_t scheme = target.find("://"); scheme != std::string_view::npos && scheme < 6) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  const size_t mark = target.find('?');
  request.path = Decode(target.substr(0, mark), false);
  std::string_view query = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    request.query[Decode(pair.substr(0, equals), true)] =
        equals == std::string_view::npos ? "" : Decode(pair.substr(equals + 1), true);
  }
  if (request.path == kPrefix) request.path += '/';
  if (request.path.starts_with(kPrefix) && request.path[kPrefix.size()] == '/')
    request.path.erase(0, kPrefix.size() + 1);
  return request;
}

MetadataAnswer Answer(const MetadataNode& tree, const MetadataRequest& request) {
  std::string_view path = request.path;
  const bool slash = path.empty() || path.ends_with('/');
  if (!path.empty() && slash) path.remove_suffix(1);
  const bool outside = path.starts_with('/');
  const auto api = tree.children.find(kOutside);
  if (outside && api != tree.children.end()) {
    const Node* leaf = Find(api->second, path.substr(1));
    if (leaf != nullptr && leaf->kind == Node::Kind::kLeaf)
      return {.content_type = "application/json", .body = leaf->text};
    if (path.starts_with("/v1/")) return NoSuchNode(api->second, path.substr(4));
  }
  const Node* node =
      outside || path.find("//") != std::string_view::npos ? nullptr : Find(tree, path);
  if (node == nullptr || (node->kind == Node::Kind::kLeaf && slash))
    return {.status = 404, .content_type = "text/plain", .body = "no such metadata entry\n"};
  if (node->kind != Node::Kind::kLeaf) {
    if (!slash && !request.Flag("recursive"))
      return {.status = 301, .location = fmt::format("{}/{}/", kPrefix, path)};
    return Directory(*node, request);
  }
  const auto alt = request.query.find("alt");
  if (alt != request.query.end() && alt->second == "json")
    return {.content_type = "application/json", .body = DumpJson(ToJson(*node))};
  const bool is_json = node->json.is_object();
  return {.content_type = is_json ? "application/json" : "application/text", .body = node->text};
}

}  // namespace torus::worker
