// The local backend: TPU VMs on this machine, one `torus worker` each.
//
// It touches the world only through the workers (which build and take down the VMs) and the image
// job, so a step here is: is the image there, does the worker live, has it the order of now, and
// what did it say. Slices of one host.
//
// Thread-safe.
#ifndef TORUS_SERVICE_BACKEND_LOCAL_LOCAL_BACKEND_H_
#define TORUS_SERVICE_BACKEND_LOCAL_LOCAL_BACKEND_H_

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "service/backend/backend.h"
#include "service/backend/local/base_images.h"
#include "service/backend/local/worker_hub.h"
#include "service/backend/local/worker_process.h"

namespace torus::backend {

struct LocalOptions {
  std::string images_folder;
  std::string vms_folder;
  std::string worker_socket;
  std::string libtpu;  // the libtpu.so that new VMs get
  std::string engine;  // the PJRT plugin that it runs on
};

class LocalBackend : public Backend {
 public:
  // FAILED_PRECONDITION says what this machine lacks: root, a program, libtpu.so, its engine.
  static Result<std::unique_ptr<LocalBackend>> Create(LocalOptions options);
  ~LocalBackend() override;

  Status Admit(const hardware::AcceleratorType& type) const override;
  std::string ImageFor(std::string_view runtime_version) const override {
    return images_->DigestFor(runtime_version);
  }
  model::Observation Converge(const model::NodeRecord& node,
                              const model::ProjectRecord& project) override;

  // Takes down, on a thread of its own, the VMs of nodes that no record knows: what a crash between
  // a delete's last steps can leave. `known` are the uids of all nodes. Call once, at start.
  void RemoveOrphans(std::set<std::string> known);

 private:
  explicit LocalBackend(LocalOptions options);
  bool AllRun(const model::NodeRecord& node) const;
  // How one VM is, after a step towards its order.
  worker::Observed StepVm(const VmKey& key, const worker::WorkerOrder& order);
  // Of a VM whose worker lives and has no connection: one that stays so is ended, as it hangs.
  worker::Observed AwaitWorker(const VmKey& key);
  void WakeUid(const std::string& uid);
  void WakeAll();

  const LocalOptions options_;
  WorkerProcess workers_;
  Mutex mutex_;
  std::map<std::string, std::string> names_ TORUS_GUARDED_BY(mutex_);  // uid to node name
  // Since when a living worker has had no connection.
  std::map<VmKey, std::chrono::steady_clock::time_point> silent_since_ TORUS_GUARDED_BY(mutex_);
  std::unique_ptr<BaseImages> images_;
  std::unique_ptr<WorkerHub> hub_;
  std::jthread orphans_;  // stops between two VMs
};

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_LOCAL_LOCAL_BACKEND_H_
