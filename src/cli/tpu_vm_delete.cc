// torus tpu-vm delete
#include <iostream>

#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {
namespace {

// Asks on stderr, as gcloud does; an empty answer or the end of the input is yes.
bool Confirmed(const NodeName& name) {
  std::cerr << "You are about to delete tpu [" << name.node << "] in [" << name.zone
            << "], and its disk.\n\nDo you want to continue (Y/n)?  " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  std::cerr << std::endl;
  return answer.empty() || answer[0] == 'y' || answer[0] == 'Y';
}

Result<Json> Delete(const Client& client, const NodeFlags& flags) {
  if (!flags.common.quiet && !Confirmed(flags.name))
    return Cancelled("deletion of {} was not confirmed; nothing changed", flags.name.node);
  return client.Delete(flags.name.ToString());
}

}  // namespace

void AddTpuVmDelete(CLI::App& parent, Invocation& invocation) {
  AddNodeCommand(parent, invocation, "delete", "Delete a TPU VM and its disk; asks first",
                 "  torus tpu-vm delete my-tpu --zone=us-central1-a\n"
                 "  torus tpu-vm delete my-tpu --zone=us-central1-a --quiet --async",
                 {"Deleting", "Deleted"}, Delete);
}

}  // namespace torus::cli
