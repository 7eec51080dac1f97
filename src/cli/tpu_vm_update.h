// The change that `torus tpu-vm update` makes, apart from its command so that tests see it.
#ifndef TORUS_CLI_TPU_VM_UPDATE_H_
#define TORUS_CLI_TPU_VM_UPDATE_H_

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/tpu_vm.h"

namespace torus::cli {

// The flags, by gcloud's names.
struct UpdateFlags : NodeFlags {
  std::optional<std::string> description;
  std::vector<std::string> update_labels, update_metadata, metadata_from_file;
  std::string remove_labels, add_tags, remove_tags, remove_metadata;
  bool clear_labels = false, clear_tags = false, clear_metadata = false, internal_ips = false;
};

struct Change {
  Json node = Json::object();     // the fields that change, whole
  std::vector<std::string> mask;  // their paths
};

// What to send so that `node`, as it is now, becomes what the flags ask for. As gcloud: clear comes
// first, then update, then remove. INVALID_ARGUMENT if nothing would change.
Result<Change> ChangeFromFlags(const UpdateFlags& flags, const Json& node);

}  // namespace torus::cli

#endif  // TORUS_CLI_TPU_VM_UPDATE_H_
