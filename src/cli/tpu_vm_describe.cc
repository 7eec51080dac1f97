// torus tpu-vm describe
#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {
namespace {

Result<int> Run(const NodeFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  TORUS_ASSIGN_OR_RETURN(const Json node, client.Get(flags.name.ToString()));
  return PrintOne(flags.common, node, kNodeColumns);
}

}  // namespace

void AddTpuVmDescribe(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<NodeFlags>();
  CLI::App* command =
      AddCommand(parent, "describe", "Show all about a TPU VM",
                 "  torus tpu-vm describe my-tpu --zone=us-central1-a\n"
                 "  torus tpu-vm describe my-tpu --zone=us-central1-a --format='value(state)'");
  AddNodeFlags(*command, *flags);
  RunAfterParse(*command, invocation, flags, Run);
}

}  // namespace torus::cli
