// torus tpu-vm create
#include "cli/tpu_vm_create.h"

#include <algorithm>
#include <cctype>

#include "cli/commands.h"
#include "hardware/catalogue.h"

namespace torus::cli {
namespace {

constexpr Verb kVerb{"Creating", "Created"};

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// --type as gcloud has it ("v5litepod"), or as people or the API say it ("v5e", "V5LITE_POD").
Result<std::string> ApiType(const std::string& type) {
  std::string names;
  for (const auto& generation : hardware::Catalogue::BuiltIn().generations()) {
    if (generation.api_name.empty()) continue;
    const std::string wanted = Lower(type);
    if (wanted == generation.type_prefix || wanted == generation.name ||
        wanted == Lower(generation.api_name))
      return generation.api_name;
    names += (names.empty() ? "" : ", ") + generation.type_prefix;
  }
  return InvalidArgument("--type: \"{}\" is not one of {}", type, names);
}

Result<Json> DataDisk(const std::string& text) {
  TORUS_ASSIGN_OR_RETURN(const auto map, ParseMap({text}));
  Json disk;
  for (const auto& [key, value] : map) {
    if (key == "source") {
      disk["sourceDisk"] = value;
    } else if (key == "mode" && (value == "read-only" || value == "read-write")) {
      disk["mode"] = value == "read-only" ? "READ_ONLY" : "READ_WRITE";
    } else {
      return InvalidArgument(
          "--data-disk: \"{}={}\"; valid: source=DISK and mode=read-only or read-write", key,
          value);
    }
  }
  if (!disk.contains("sourceDisk")) return InvalidArgument("--data-disk needs source=DISK");
  return disk;
}

Status SetAccelerator(const CreateFlags& flags, Json& node) {
  if (flags.topology.empty() != flags.type.empty())
    return InvalidArgument("--type and --topology go together");
  if (flags.topology.empty()) {
    node["acceleratorType"] =
        flags.accelerator_type.empty() ? "v2-8" : Lower(flags.accelerator_type);
    return {};
  }
  if (!flags.accelerator_type.empty())
    return InvalidArgument("give --accelerator-type, or --type and --topology, not both");
  TORUS_ASSIGN_OR_RETURN(const std::string type, ApiType(flags.type));
  node["acceleratorConfig"] = {{"type", type}, {"topology", flags.topology}};
  return {};
}

Status SetMaps(const CreateFlags& flags, Json& node) {
  TORUS_ASSIGN_OR_RETURN(const auto labels, ParseMap(flags.labels));
  TORUS_ASSIGN_OR_RETURN(auto metadata, ParseMap(flags.metadata));
  TORUS_ASSIGN_OR_RETURN(const auto files, ParseMetadataFiles(flags.metadata_from_file));
  for (const auto& [key, value] : files) {
    if (!metadata.emplace(key, value).second)
      return InvalidArgument("\"{}\" is in both --metadata and --metadata-from-file", key);
  }
  if (!labels.empty()) node["labels"] = labels;
  if (!metadata.empty()) node["metadata"] = metadata;
  return {};
}

void SetNetwork(const CreateFlags& flags, Json& node) {
  Json& network = node["networkConfig"];
  network["network"] = flags.network;
  if (!flags.subnetwork.empty()) network["subnetwork"] = flags.subnetwork;
  network["enableExternalIps"] = !flags.internal_ips;
  if (flags.queue_count > 0) network["queueCount"] = flags.queue_count;
  if (!flags.range.empty()) node["cidrBlock"] = flags.range;
}

void SetScheduling(const CreateFlags& flags, Json& node) {
  if (flags.preemptible) node["schedulingConfig"]["preemptible"] = true;
  if (flags.spot) node["schedulingConfig"]["spot"] = true;
  if (flags.reserved) node["schedulingConfig"]["reserved"] = true;
  if (!flags.service_account.empty()) node["serviceAccount"]["email"] = flags.service_account;
  if (!flags.scopes.empty()) node["serviceAccount"]["scope"] = ParseList(flags.scopes);
  if (!flags.tags.empty()) node["tags"] = ParseList(flags.tags);
  if (flags.shielded_secure_boot) node["shieldedInstanceConfig"]["enableSecureBoot"] = true;
}

Result<int> Create(const CreateFlags& flags, const Json& node) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  TORUS_ASSIGN_OR_RETURN(const Json operation, client.Post(flags.name.Parent() + "/nodes", node,
                                                           {{"nodeId", flags.name.node}}));
  return FinishOperation(client, flags, operation, kVerb);
}

void AddNetworkFlags(CLI::App& command, CreateFlags& flags) {
  command.add_option("--network", flags.network, "The network it is part of")
      ->type_name("NETWORK")
      ->capture_default_str();
  command.add_option("--subnetwork", flags.subnetwork, "The subnetwork")->type_name("SUBNETWORK");
  command.add_option("--range", flags.range, "The CIDR range of its addresses")->type_name("CIDR");
  command.add_flag("--internal-ips", flags.internal_ips, "Give it no external address");
  command.add_option("--queue-count", flags.queue_count, "Network queues of each VM")
      ->type_name("NUMBER")
      ->check(PositiveNumber());
  command.add_option("--tags", flags.tags, "Network tags")->type_name("TAG,...");
}

void AddSchedulingFlags(CLI::App& command, CreateFlags& flags) {
  command.add_flag("--preemptible", flags.preemptible, "It may be preempted");
  command.add_flag("--spot", flags.spot, "It is a spot VM, and may be preempted");
  command.add_flag("--reserved", flags.reserved, "Take it from a reservation");
  command.add_option("--service-account", flags.service_account, "The identity of its programs")
      ->type_name("EMAIL");
  command.add_option("--scopes", flags.scopes, "What that identity may do")->type_name("SCOPE,...");
  command.add_flag("--shielded-secure-boot", flags.shielded_secure_boot,
                   "Make it with secure boot");
}

}  // namespace

Result<Json> NodeFromFlags(const CreateFlags& flags) {
  Json node = Json::object();
  if (!flags.description.empty()) node["description"] = flags.description;
  TORUS_RETURN_IF_ERROR(SetAccelerator(flags, node));
  node["runtimeVersion"] = flags.version;
  TORUS_RETURN_IF_ERROR(SetMaps(flags, node));
  SetNetwork(flags, node);
  SetScheduling(flags, node);
  for (const std::string& disk : flags.data_disks) {
    TORUS_ASSIGN_OR_RETURN(Json each, DataDisk(disk));
    node["dataDisks"].push_back(std::move(each));
  }
  return node;
}

void AddTpuVmCreate(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<CreateFlags>();
  CLI::App* command =
      AddCommand(parent, "create", "Make a TPU VM and wait until it is ready",
                 "  torus tpu-vm create my-tpu --zone=us-central1-a --accelerator-type=v2-8 "
                 "--version=tpu-ubuntu2204-base\n"
                 "  torus tpu-vm create big --zone=us-central2-b --type=v4 --topology=2x2x4 "
                 "--version=tpu-ubuntu2204-base --async");
  AddNodeFlags(*command, *flags);
  AddAsyncFlag(*command, *flags);
  command
      ->add_option("--version", flags->version, "Runtime version; `torus versions list` lists them")
      ->type_name("VERSION")
      ->required();
  command
      ->add_option("--accelerator-type", flags->accelerator_type,
                   "Accelerator type, v2-8 if not given; `torus accelerator-types list` lists them")
      ->type_name("TYPE");
  command->add_option("--type", flags->type, "Generation, with --topology: v2, v4, v5litepod …")
      ->type_name("TYPE");
  command->add_option("--topology", flags->topology, "Chips along each axis, such as 2x2x4")
      ->type_name("AxB[xC]");
  command->add_option("--description", flags->description, "A text about it")->type_name("TEXT");
  AddRepeated(*command, "--labels", flags->labels, "Labels to know it by")
      ->type_name("KEY=VALUE,...");
  AddRepeated(*command, "--metadata", flags->metadata, "Metadata its programs can read")
      ->type_name("KEY=VALUE,...");
  AddRepeated(*command, "--metadata-from-file", flags->metadata_from_file,
              "Metadata from files, such as startup-script=setup.sh")
      ->type_name("KEY=FILE,...");
  AddRepeated(*command, "--data-disk", flags->data_disks, "A disk to attach")
      ->type_name("source=DISK,mode=MODE");
  AddNetworkFlags(*command, *flags);
  AddSchedulingFlags(*command, *flags);
  command->callback([flags, &invocation] {
    flags->Resolve(invocation);
    auto node = NodeFromFlags(*flags);
    if (!node) throw CLI::ValidationError(node.error().message());
    invocation.run = [flags, node = *std::move(node)] { return Create(*flags, node); };
  });
}

}  // namespace torus::cli
