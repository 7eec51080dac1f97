// torus tpu-vm start
#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {
namespace {

constexpr Verb kVerb{"Starting", "Started"};

Result<int> Run(const NodeFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  TORUS_ASSIGN_OR_RETURN(const Json operation,
                         client.Post(flags.name.ToString() + ":start", Json::object()));
  return FinishOperation(client, flags, operation, kVerb);
}

}  // namespace

void AddTpuVmStart(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<NodeFlags>();
  CLI::App* command = AddCommand(parent, "start", "Start a TPU VM that was stopped",
                                 "  torus tpu-vm start my-tpu --zone=us-central1-a");
  AddNodeFlags(*command, *flags);
  AddAsyncFlag(*command, *flags);
  command->callback([flags, &invocation] {
    flags->Resolve();
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
