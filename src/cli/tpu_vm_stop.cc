// torus tpu-vm stop
#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {

void AddTpuVmStop(CLI::App& parent, Invocation& invocation) {
  AddNodeCommand(parent, invocation, "stop", "Stop a TPU VM; its disk is kept",
                 "  torus tpu-vm stop my-tpu --zone=us-central1-a", {"Stopping", "Stopped"},
                 [](const Client& client, const NodeFlags& flags) {
                   return client.Post(flags.name.ToString() + ":stop", Json::object());
                 });
}

}  // namespace torus::cli
