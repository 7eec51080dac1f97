// The request of `torus tpu-vm create`, apart from its command so that tests see it.
#ifndef TORUS_CLI_TPU_VM_CREATE_H_
#define TORUS_CLI_TPU_VM_CREATE_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/tpu_vm.h"

namespace torus::cli {

// The flags, by gcloud's names.
struct CreateFlags : NodeFlags {
  std::string accelerator_type, type, topology, version, description;
  std::string network = "default", subnetwork, range, service_account, scopes, tags;
  std::vector<std::string> labels, metadata, metadata_from_file, data_disks;
  bool internal_ips = false, preemptible = false, spot = false, reserved = false;
  bool shielded_secure_boot = false;
  int queue_count = 0;  // 0: the service's choice
};

// The google.cloud.tpu.v2.Node that the flags ask for. INVALID_ARGUMENT names the flag.
Result<Json> NodeFromFlags(const CreateFlags& flags);

}  // namespace torus::cli

#endif  // TORUS_CLI_TPU_VM_CREATE_H_
