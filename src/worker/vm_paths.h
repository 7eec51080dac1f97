// Where a VM lives on the host: its folder, and the names that its parts have in the kernel.
//
//   <dir>/disk/image         the VM's disk with its writable root; survives stop and start
//   <dir>/disk/hostkeys      its sshd's own keys
//   <dir>/disk/tpu           the libtpu.so and engine that it was made with
//   <dir>/run                what a running VM needs; `share` is what the VM sees at /run/torus
//   <dir>/log                worker.log, runc.log
//
// Every name follows from the node's uid and the worker's index, so whatever is left of a VM is
// found again without a memory of it. Values; pure.
#ifndef TORUS_WORKER_VM_PATHS_H_
#define TORUS_WORKER_VM_PATHS_H_

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/text.h"

namespace torus::worker {

struct VmPaths {
  VmPaths(std::string folder, std::string_view node_uid, int index)
      : dir(std::move(folder)), tag(Tag(fmt::format("{}/{}", node_uid, index))) {}

  // Twelve hexadecimal digits of an FNV-1a hash: a network link's name has but 15 characters.
  static std::string Tag(std::string_view text) {
    return fmt::format("{:012x}", Fnv1a(text) >> 16);
  }

  std::string dir;
  std::string tag;

  std::string disk() const { return dir + "/disk"; }
  std::string run() const { return dir + "/run"; }
  std::string log() const { return dir + "/log"; }
  static std::string DiskFile(const std::string& disk) { return disk + "/image"; }
  std::string disk_file() const { return DiskFile(disk()); }
  std::string share() const { return run() + "/share"; }
  std::string bundle() const { return run() + "/bundle"; }
  std::string runc_root() const { return run() + "/runc"; }
  std::string sandbox_file() const { return run() + "/sandbox.json"; }
  std::string host_keys() const { return disk() + "/hostkeys"; }
  std::string tpu() const { return disk() + "/tpu"; }

  std::string container() const { return "torus-" + tag; }
  std::string cgroup() const { return "torus-" + tag; }
  std::string link() const { return "tv" + tag; }
  std::string table() const { return "torus_" + tag; }
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_VM_PATHS_H_
