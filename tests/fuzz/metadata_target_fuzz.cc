// What is asked of a VM's metadata: the target of a request, against the tree of a VM. What says
// that it is JSON is JSON; a redirect leads to an answer.
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "worker/metadata_tree.h"

namespace torus::fuzz {
namespace {

worker::MetadataNode Tree() {
  worker::VmSpec vm;
  vm.set_project("p");
  vm.set_zone("us-central1-a");
  vm.set_node_id("n1");
  vm.set_host_name("t1v-n-1-w-0");
  vm.set_accelerator_type("v2-8");
  vm.set_address("10.128.0.2");
  vm.add_tags("a");
  vm.add_worker_addresses("10.128.0.2");
  vm.set_service_account_email("1-compute@developer.gserviceaccount.com");
  (*vm.mutable_metadata())["a/b c"] = "text\nof two lines";
  (*vm.mutable_metadata())["ssh-keys"] = "user:ssh-ed25519 AAAA";
  return worker::MetadataTree(vm, 1 << 30);
}

}  // namespace

void Fuzz(std::string_view input) {
  static const auto& tree = *new worker::MetadataNode(Tree());
  const auto answer = worker::Answer(tree, worker::ParseTarget(input));
  Check(answer.status == 200 || answer.status == 301 || answer.status == 404,
        "{} is an answer to {}", answer.status, input);
  if (answer.content_type == "application/json")
    Check(nlohmann::json::accept(answer.body), "this is JSON: {}", answer.body);
  if (answer.status == 301) {
    Check(answer.location.starts_with("/computeMetadata/v1/"), "{} is below us", answer.location);
    const auto there = worker::Answer(tree, worker::ParseTarget(answer.location));
    Check(there.status == 200, "{} leads to an answer, not to {}", answer.location, there.status);
  }
}

}  // namespace torus::fuzz
