// torus tpu-vm list
#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {
namespace {

Result<int> Run(const ListFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  const NodeName where{flags.common.project, flags.common.zone, ""};
  TORUS_ASSIGN_OR_RETURN(const Json nodes,
                         client.List(where.Parent() + "/nodes", "nodes", flags.limit));
  return PrintList(flags.common, nodes, kNodeColumns);
}

}  // namespace

void AddTpuVmList(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App* command = AddCommand(parent, "list", "List the TPU VMs of a zone, or of all zones",
                                 "  torus tpu-vm list\n"
                                 "  torus tpu-vm list --zone=us-central1-a --format=json");
  AddListFlags(*command, *flags, ZoneFlag::kOrAll);
  command->callback([flags, &invocation] {
    flags->common.Resolve(invocation, ZoneFlag::kOrAll);
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
