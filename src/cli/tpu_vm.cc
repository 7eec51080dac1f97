// The group `torus tpu-vm`, and what its commands share.
#include "cli/tpu_vm.h"

#include <iostream>

#include "cli/commands.h"
#include "cli/operation.h"

namespace torus::cli {

void NodeFlags::Resolve() {
  const bool full_name = node.find('/') != node.npos;
  common.Resolve(full_name ? ZoneFlag::kOrAll : ZoneFlag::kRequired);
  auto parsed = ParseNodeName(node, common.project, common.zone);
  if (!parsed) throw CLI::ValidationError("TPU", parsed.error().message());
  name = *std::move(parsed);
}

void AddNodeFlags(CLI::App& command, NodeFlags& flags) {
  command.add_option("tpu", flags.node, "The TPU VM's name")->type_name("TPU")->required();
  AddCommonFlags(command, flags.common, ZoneFlag::kRequired);
}

void AddAsyncFlag(CLI::App& command, NodeFlags& flags) {
  command.add_flag("--async", flags.async, "Return at once; do not wait for the operation");
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

void AddTpuVm(CLI::App& parent, Invocation& invocation) {
  CLI::App* group = AddCommand(parent, "tpu-vm", "Make, use and delete TPU VMs",
                               "  torus tpu-vm create my-tpu --zone=us-central1-a "
                               "--accelerator-type=v2-8 --version=tpu-ubuntu2204-base\n"
                               "  torus tpu-vm ssh my-tpu --zone=us-central1-a");
  group->require_subcommand(1);
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
