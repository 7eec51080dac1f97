// The doctor in the worker: looks at a VM's programs from outside, and says what is wrong with how
// they use the TPU, in the VM's log, and once on the terminal of the program. docs/doctor.md.
//
// Not thread-safe.
#ifndef TORUS_WORKER_WATCHER_H_
#define TORUS_WORKER_WATCHER_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "worker.pb.h"
#include "worker/tpu_use.h"
#include "worker/vm_processes.h"

namespace torus::worker {

// In the VM: what was found and what is over, a line each with its time.
inline constexpr char kDoctorLog[] = "var/log/torus-doctor.log";

class Watcher {
 public:
  // Looks at the VM whose first process is `init` and whose root is the host's user `root_uid`. True
  // if the findings have changed. Some milliseconds.
  bool Look(const ProcessIdentity& init, uint32_t root_uid);

  // All of now, in the order in which they were first seen.
  std::vector<Finding> findings() const;

  // The VM is gone, and all that was found in it.
  void Forget() { *this = Watcher(); }

 private:
  using Key = std::pair<ProcessIdentity, std::string>;  // on the host; a finding's id

  VmProcesses processes_;
  std::map<ProcessIdentity, UseHistory> histories_;
  std::map<Key, Finding> findings_;
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_WATCHER_H_
