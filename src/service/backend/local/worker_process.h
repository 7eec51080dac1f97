// Starts and finds the `torus worker` process of a VM. The process is detached: it outlives the
// service and dials it again by itself.
//
// The worker is who has the lock of <vms>/<uid>/<index>/run/lock, as the kernel knows; so there is
// one a VM however often Start is called, and nothing here is kept in memory.
//
// Thread-safe.
#ifndef TORUS_SERVICE_BACKEND_LOCAL_WORKER_PROCESS_H_
#define TORUS_SERVICE_BACKEND_LOCAL_WORKER_PROCESS_H_

#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/process.h"
#include "base/status.h"

namespace torus::backend {

class WorkerProcess {
 public:
  // `vms_folder` is <data>/vms, `socket` the Unix socket that workers dial. `program` is run with
  // the first argument "worker"; by default this very program.
  WorkerProcess(std::string vms_folder, std::string socket, std::string program = "/proc/self/exe");

  // Waits for starts under way (10 s at most; milliseconds, commonly).
  ~WorkerProcess();

  // Starts the worker unless one lives or is being started. Takes kStartWait at most: a start that
  // takes longer goes on by itself, and its error, if any, is what the next call returns. Does not
  // wait until the worker dials. UNAVAILABLE or INTERNAL when it cannot be started.
  Status Start(std::string_view node_uid, int index) const;
  static constexpr std::chrono::milliseconds kStartWait{100};

  // The living worker, if there is one.
  std::optional<ProcessIdentity> Find(std::string_view node_uid, int index) const;

  // Ends a living worker by SIGKILL and waits until it is gone, `limit` at most: one that waits for
  // a dead disk does not go. The VM lives on, for the next worker to adopt. Whether it is gone.
  bool End(std::string_view node_uid, int index, std::chrono::milliseconds limit) const;

  // Ends a living worker by SIGKILL, then takes down and removes whatever there is of the VM:
  // processes, mounts, addresses, rules, cgroups and files. Blocks; idempotent. For VMs that no
  // record wants. CANCELLED when `stop` is requested before it is done.
  Status RemoveLeftovers(std::string_view node_uid, int index,
                         const std::stop_token& stop = {}) const;

  // Removes a node's folder if no VM's is left in it: what a worker that was killed last of all
  // leaves.
  void RemoveEmptyFolder(std::string_view node_uid) const;

  // The (node uid, index) of each VM that has a folder.
  std::vector<std::pair<std::string, int>> List() const;

 private:
  std::string FolderOf(std::string_view node_uid, int index) const;
  std::vector<std::string> Arguments(std::string_view node_uid, int index) const;

  const std::string vms_folder_;
  const std::string socket_;
  const std::string program_;

  mutable Mutex mutex_;
  mutable std::map<std::string, std::shared_future<Status>> starting_
      TORUS_GUARDED_BY(mutex_);  // by folder
};

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_LOCAL_WORKER_PROCESS_H_
