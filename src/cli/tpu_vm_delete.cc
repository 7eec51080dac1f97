// torus tpu-vm delete
#include <iostream>

#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {
namespace {

constexpr Verb kVerb{"Deleting", "Deleted"};

// Asks on stderr, as gcloud does; an empty answer or the end of the input is yes.
bool Confirmed(const NodeName& name) {
  std::cerr << "You are about to delete tpu [" << name.node << "] in [" << name.zone
            << "], and its disk.\n\nDo you want to continue (Y/n)?  " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  std::cerr << std::endl;
  return answer.empty() || answer[0] == 'y' || answer[0] == 'Y';
}

Result<int> Run(const NodeFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  if (!flags.common.quiet && !Confirmed(flags.name))
    return Cancelled("deletion of {} was not confirmed; nothing changed", flags.name.node);
  TORUS_ASSIGN_OR_RETURN(const Json operation, client.Delete(flags.name.ToString()));
  return FinishOperation(client, flags, operation, kVerb);
}

}  // namespace

void AddTpuVmDelete(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<NodeFlags>();
  CLI::App* command = AddCommand(parent, "delete", "Delete a TPU VM and its disk",
                                 "  torus tpu-vm delete my-tpu --zone=us-central1-a --quiet");
  AddNodeFlags(*command, *flags);
  AddAsyncFlag(*command, *flags);
  command->callback([flags, &invocation] {
    flags->Resolve();
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
