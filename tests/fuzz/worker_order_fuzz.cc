// The worker protocol, as the worker takes it: an order, as text. Whatever the service asks for,
// the worker writes no file but its own, no line but what it means to, and metadata that can be
// read.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "slice/description.h"
#include "text_message.h"
#include "worker/accounts.h"
#include "worker/guest_files.h"
#include "worker/metadata_tree.h"
#include "worker/network.h"
#include "worker/oci_config.h"

namespace torus::fuzz {
namespace {

constexpr int64_t kMemory = 1 << 30;
constexpr auto kNow = worker::WallTime(std::chrono::seconds(1'800'000'000));

void CheckFiles(const worker::VmSpec& vm) {
  const auto accounts =
      worker::ReadAccounts(worker::NodeMetadata(vm), worker::ProjectMetadata(vm), kNow);
  for (const auto& [name, content] : worker::GuestFiles(vm, accounts, kMemory, "")) {
    std::string_view file = name;
    if (name.starts_with("keys/")) file.remove_prefix(5);
    Check(!file.empty() && file != "." && file != ".." && file.find('/') == std::string_view::npos,
          "{} is a file of the folder", name);
    if (!name.starts_with("keys/")) continue;
    Check(worker::IsUserName(file), "{} is a user's name", file);
    const auto lines = static_cast<size_t>(std::ranges::count(content, '\n'));
    Check(lines == accounts.keys.at(std::string(file)).size(), "a key is a line of {}", name);
  }
  Check(!accounts.next_expiry || *accounts.next_expiry > kNow, "an expired key does not count");
}

void CheckSlice(const worker::VmSpec& vm) {
  const std::string& type = vm.accelerator_type();
  if (type.find_first_not_of("'\r\n") == std::string::npos || vm.worker_index() < 0) return;
  const std::string text = worker::SliceText(vm, kMemory);
  const auto read = slice::Parse(text);
  Check(read.has_value(), "libtpu.so reads the slice: {}\n{}", read ? "" : read.error().message(),
        text);
}

void CheckMetadata(const worker::VmSpec& vm) {
  const auto tree = worker::MetadataTree(vm, kMemory);
  const auto all = worker::Answer(tree, worker::ParseTarget("/computeMetadata/v1/?recursive=true"));
  Check(nlohmann::json::accept(all.body), "all metadata is JSON: {}", all.body);
}

void CheckNetwork(const worker::VmSpec& vm) {
  worker::NetworkPlan plan{.address = vm.address()};
  plan.peers.assign(vm.worker_addresses().begin(), vm.worker_addresses().end());
  if (!worker::CheckPlan(plan).ok()) return;
  const worker::VmPaths paths("/vm", vm.node_uid(), vm.worker_index());
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  worker::NetworkPlan plain{.address = "10.128.0.2"};
  plain.peers.assign(plan.peers.size(), "10.128.0.3");
  Check(lines(worker::HostRules(paths, plan)) == lines(worker::HostRules(paths, plain)),
        "an address adds no rule");
  Check(
      lines(worker::HostLinkCommands(paths, plan)) == lines(worker::HostLinkCommands(paths, plain)),
      "an address adds no command");
}

}  // namespace

void Fuzz(std::string_view input) {
  worker::WorkerOrder order;
  if (!ReadMessage(input, &order)) return;
  const worker::VmSpec& vm = order.vm();
  CheckFiles(vm);
  CheckSlice(vm);
  CheckMetadata(vm);
  CheckNetwork(vm);
  (void)worker::OciConfig({.host_name = vm.host_name(), .uid_base = vm.uid_base()}).dump();
}

}  // namespace torus::fuzz
