// The worker's control loop: brings one VM into line with the newest order, over and over, and
// reports what it has observed.
//
// Every pass decides afresh (plan.h) from the order and from the world, so a pass that dies half
// way is simply followed by another. It keeps watch while the VM runs: a sandbox whose first
// process is gone is started again with back-off. One whose sshd has not answered for half a
// minute gets another sshd, and else is left alone: the user's job in it lives.
//
// Threads: Run is called on one; SetOrder may be called on any.
#ifndef TORUS_WORKER_AGENT_H_
#define TORUS_WORKER_AGENT_H_

#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "worker/accounts.h"
#include "worker/metadata_server.h"
#include "worker/metrics_server.h"
#include "worker/plan.h"
#include "worker/sandbox.h"
#include "worker/tensorflow_refusal.h"
#include "worker/watcher.h"

namespace torus::worker {

class Agent {
 public:
  // `sandbox` and `report` outlive the agent.
  Agent(Sandbox& sandbox, std::function<void(Observed)> report);

  // The newest order; an older generation than the present one is passed over.
  void SetOrder(const WorkerOrder& order);

  // Carries out orders until a VM is deleted. DELETED has been reported when it returns.
  void Run();

 private:
  // One pass over the newest order; true when the VM is deleted.
  bool Step();
  Status StartVm(const WorkerOrder& order);
  Status RefreshVm(const WorkerOrder& order);
  Status RemoveVm();
  // Waits for sshd, then reports RUNNING. When it does not come, has another started and says so.
  Status AwaitSsh(const WorkerOrder& order);
  // Looks every few seconds whether a running VM still answers, and is still kept in its bounds.
  void Watch(const WorkerOrder& order, const ProcessIdentity& init);
  // Serves the spec's metadata in the network of process `pid`, unless that is served already.
  Status Serve(const VmSpec& vm, int64_t pid);
  void ServeMetrics(int64_t pid);
  void RefuseTensorFlow(const VmSpec& vm, int64_t pid);
  // Has the doctor look at the VM's programs, and reports what it finds.
  void Diagnose(const VmSpec& vm, const ProcessIdentity& init);
  void StopServers();
  Accounts ReadKeys(const VmSpec& vm);
  void Fail(const WorkerOrder& order, const Status& status);
  void Report(Phase phase, const std::string& detail);
  // Sends it with the generation in effect and all guest attributes.
  void Send(Observed observed);
  // Sends the newest report again if the VM has written guest attributes since.
  void ReportAttributes();
  bool Superseded(int64_t generation);
  // From the metadata server's thread: the VM has written.
  void TakeAttributes(const GuestAttributes& attributes);

  Sandbox& sandbox_;
  const std::function<void(Observed)> report_;
  MetadataServer metadata_;
  MetricsServer metrics_;
  TensorFlowRefusal refusal_;
  Watcher watcher_;

  Mutex mutex_;
  Condition wake_;
  std::optional<WorkerOrder> order_ TORUS_GUARDED_BY(mutex_);
  GuestAttributes attributes_ TORUS_GUARDED_BY(mutex_);
  bool attributes_changed_ TORUS_GUARDED_BY(mutex_) = false;  // since the newest report

  // The loop's own.
  int64_t in_effect_ = -1;
  int failures_ = 0;
  Observed reported_;       // the newest
  int silent_looks_ = 0;    // of sshd, in a row
  bool sshd_lost_ = false;  // it answered once, and has been ended for its silence since
  int64_t served_pid_ = 0;
  SteadyTime not_before_{};
  SteadyTime next_look_{};
  SteadyTime running_since_{};
  std::optional<WallTime> next_expiry_;
  std::vector<std::string> skipped_;  // the lines of ssh-keys that were left out
  std::string untold_;                // why sshd could not be asked last time, as logged
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_AGENT_H_
