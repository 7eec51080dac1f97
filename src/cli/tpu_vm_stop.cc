// torus tpu-vm stop
#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {
namespace {

constexpr Verb kVerb{"Stopping", "Stopped"};

Result<int> Run(const NodeFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  TORUS_ASSIGN_OR_RETURN(const Json operation,
                         client.Post(flags.name.ToString() + ":stop", Json::object()));
  return FinishOperation(client, flags, operation, kVerb);
}

}  // namespace

void AddTpuVmStop(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<NodeFlags>();
  CLI::App* command = AddCommand(parent, "stop", "Stop a TPU VM; its disk is kept",
                                 "  torus tpu-vm stop my-tpu --zone=us-central1-a");
  AddNodeFlags(*command, *flags);
  AddAsyncFlag(*command, *flags);
  command->callback([flags, &invocation] {
    flags->Resolve();
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
