// The group `torus tpu-vm`, and what its commands share.
#include "cli/tpu_vm.h"

#include <iostream>

#include "cli/commands.h"
#include "cli/operation.h"

namespace torus::cli {

void NodeFlags::Resolve(const Invocation& invocation) {
  const bool full_name = node.find('/') != node.npos;
  common.Resolve(invocation, full_name ? ZoneFlag::kOrAll : ZoneFlag::kRequired);
  auto parsed = ParseNodeName(node, common.project, common.zone);
  if (!parsed) throw CLI::ValidationError("TPU", parsed.error().message());
  name = *std::move(parsed);
}

void AddNodeFlags(CLI::App& command, NodeFlags& flags) {
  command.add_option("TPU", flags.node, "The TPU VM's name")->type_name("TPU")->required();
  AddCommonFlags(command, flags.common, ZoneFlag::kRequired);
}

void AddAsyncFlag(CLI::App& command, NodeFlags& flags) {
  command.add_flag("--async", flags.async, "Return at once; do not wait for the operation");
}

void AddListFlags(CLI::App& command, ListFlags& flags, ZoneFlag zone_flag) {
  command.add_option("--limit", flags.limit, "At most this many")
      ->type_name("NUMBER")
      ->check(PositiveNumber());
  AddCommonFlags(command, flags.common, zone_flag);
}

Result<Client> MakeClient(const CommonFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(flags.endpoint));
  return Client(std::move(endpoint));
}

Result<int> PrintList(const CommonFlags& flags, const Json& resources, std::string_view columns) {
  TORUS_ASSIGN_OR_RETURN(const Format format, Format::Parse(flags.format));
  std::cout << format.PrintList(resources, columns) << std::flush;
  if (resources.empty() && format.kind() != Format::Kind::kJson)
    std::cerr << "Listed 0 items." << std::endl;
  return kExitOk;
}

Result<int> PrintOne(const CommonFlags& flags, const Json& resource, std::string_view columns) {
  TORUS_ASSIGN_OR_RETURN(const Format format, Format::Parse(flags.format));
  std::cout << format.Print(resource, columns) << std::flush;
  return kExitOk;
}

Result<int> FinishOperation(const Client& client, const NodeFlags& flags, const Json& operation,
                            const Verb& verb) {
  const std::string& node = flags.name.node;
  if (flags.async) {
    std::cerr << verb.doing << " tpu [" << node
              << "]; look at it with: " << DescribeCommand(operation) << std::endl;
    return flags.common.format.empty() ? Result<int>(kExitOk)
                                       : PrintOne(flags.common, operation, kOperationColumns);
  }
  TORUS_ASSIGN_OR_RETURN(
      const Json result,
      WaitForOperation(client, operation, fmt::format("{} tpu [{}]", verb.doing, node)));
  std::cerr << verb.done << " tpu [" << node << "]." << std::endl;
  return flags.common.format.empty() ? Result<int>(kExitOk)
                                     : PrintOne(flags.common, result, kNodeColumns);
}

void AddNodeCommand(CLI::App& group, Invocation& invocation, const std::string& name,
                    const std::string& help, const std::string& examples, const Verb& verb,
                    Result<Json> (*request)(const Client& client, const NodeFlags& flags)) {
  auto flags = std::make_shared<NodeFlags>();
  CLI::App* command = AddCommand(group, name, help, examples);
  AddNodeFlags(*command, *flags);
  AddAsyncFlag(*command, *flags);
  command->callback([flags, verb, request, &invocation] {
    flags->Resolve(invocation);
    invocation.run = [flags, verb, request]() -> Result<int> {
      TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags->common));
      TORUS_ASSIGN_OR_RETURN(const Json operation, request(client, *flags));
      return FinishOperation(client, *flags, operation, verb);
    };
  });
}

void AddTpuVm(CLI::App& parent, Invocation& invocation) {
  CLI::App* group = AddGroup(parent, invocation, "tpu-vm", "Make, use and delete TPU VMs",
                             "  torus tpu-vm create my-tpu --zone=us-central1-a "
                             "--accelerator-type=v2-8 --version=tpu-ubuntu2204-base\n"
                             "  torus tpu-vm ssh my-tpu --zone=us-central1-a");
  AddTpuVmCreate(*group, invocation);
  AddTpuVmList(*group, invocation);
  AddTpuVmDescribe(*group, invocation);
  AddTpuVmSsh(*group, invocation);
  AddTpuVmScp(*group, invocation);
  AddTpuVmStart(*group, invocation);
  AddTpuVmStop(*group, invocation);
  AddTpuVmDelete(*group, invocation);
  AddTpuVmUpdate(*group, invocation);
  AddAcceleratorTypes(*group, invocation);
  AddVersions(*group, invocation);
}

}  // namespace torus::cli
