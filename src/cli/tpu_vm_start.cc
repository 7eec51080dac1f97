// torus tpu-vm start
#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {

void AddTpuVmStart(CLI::App& parent, Invocation& invocation) {
  AddNodeCommand(parent, invocation, "start", "Start a TPU VM that was stopped",
                 "  torus tpu-vm start my-tpu --zone=us-central1-a", {"Starting", "Started"},
                 [](const Client& client, const NodeFlags& flags) {
                   return client.Post(flags.name.ToString() + ":start", Json::object());
                 });
}

}  // namespace torus::cli
