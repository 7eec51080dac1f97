// One VM's sandbox on this host: brings it up, takes it down, and tells what there is.
//
// What there is is read from the world (the sandbox's file with its process's identity, runc's
// state, cgroups, links, rules), never from memory, so every method may be called after a crash at
// any point, by this worker or its successor, and is idempotent.
//
// Not thread-safe: one caller at a time. REQUIRES: root, and EnterPrivateMounts.
#ifndef TORUS_WORKER_SANDBOX_H_
#define TORUS_WORKER_SANDBOX_H_

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/process.h"
#include "base/status.h"
#include "worker.pb.h"
#include "worker/accounts.h"
#include "worker/limits.h"
#include "worker/network.h"
#include "worker/vm_paths.h"

namespace torus::worker {

class Sandbox {
 public:
  explicit Sandbox(VmPaths paths);

  // The first process of a sandbox that was started whole and lives. An error when nobody can tell,
  // which is no sign of its death.
  Result<std::optional<ProcessIdentity>> Live() const;

  // Starts it from whatever state. Calls `plumbed` with the first process's pid when the network
  // stands and nothing runs in the VM yet. On an error nothing is left running.
  // INVALID_ARGUMENT for a spec that cannot be, NOT_FOUND for a missing image or program,
  // RESOURCE_EXHAUSTED for a full disk.
  Status Start(const VmSpec& vm, const Accounts& accounts,
               const std::function<Status(int64_t pid)>& plumbed);

  // Brings a live sandbox's users, keys and files into line with the spec. In effect on return.
  Status Refresh(const VmSpec& vm, const Accounts& accounts);

  // Takes it down, from whatever state: no process, mount, namespace, cgroup, address or rule is
  // left; the disk is. With `gently`, a live sandbox's processes are asked to end first (seconds;
  // a minute with a shutdown script).
  Status TakeDown(bool gently);

  // Removes the VM's folder, disk and all, and its parent once that is empty. REQUIRES: TakeDown.
  Status RemoveFiles();

  // Whether an ssh server greets at the VM's address within `timeout`. An error when this host
  // cannot even ask (no descriptor is left, say), which is no silence of sshd's.
  static Result<bool> SshAnswers(const std::string& address, std::chrono::milliseconds timeout);

  // Ends a live sandbox's sshd, for another to come up, and leaves everything else in it alone.
  // Returns what is known of the trouble: one line, perhaps empty, made safe to show.
  std::string RestartSshd() const;

  // The host keys as guest attributes; see PublicHostKeys.
  Result<std::map<std::string, std::string>> HostKeys() const;

  const VmPaths& paths() const { return paths_; }
  // Puts back what the host has lost of the running VM's bounds: the rules of its network.
  Status KeepBounds(const VmSpec& vm, const ProcessIdentity& init) const;

  // The limits that hold for this spec on this host.
  Limits LimitsOf(const VmSpec& vm) const;

 private:
  Status PrepareFiles(const VmSpec& vm, const Accounts& accounts);
  Status Create(const VmSpec& vm);
  Status MakeUsers() const;
  // Runs a script of /run/torus in the VM, as its root; returns its output. Nothing of it is left
  // when its time is over.
  Result<std::string> Exec(const std::string& script, std::chrono::milliseconds timeout) const;
  NetworkPlan PlanOf(const VmSpec& vm, int64_t pid) const;
  Status Boot(const VmSpec& vm, const std::function<Status(int64_t pid)>& plumbed);
  Status Runc(std::vector<std::string> arguments, std::chrono::milliseconds timeout) const;
  void StopGently(const ProcessIdentity& init) const;
  Status KillProcesses();
  std::optional<ProcessIdentity> Init() const;

  const VmPaths paths_;
  const HostSize host_;
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_SANDBOX_H_
