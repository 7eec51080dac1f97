// The backend: starts and stops the VMs of nodes. The only way by which the service touches the
// world. `fake` (no VM, for automation and load tests) and `local` (this machine) implement it.
//
// Thread-safety: every method may be called from any thread, for one node by one thread at a time.
#ifndef TORUS_SERVICE_BACKEND_BACKEND_H_
#define TORUS_SERVICE_BACKEND_BACKEND_H_

#include <functional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"
#include "hardware/catalogue.h"
#include "record.pb.h"
#include "service/model/node.h"

namespace torus::backend {

class Backend {
 public:
  virtual ~Backend() = default;

  // Whether a slice of this type fits here at all. INVALID_ARGUMENT says what it would need.
  virtual Status Admit(const hardware::AcceleratorType& type) const = 0;

  // Whether a user can log in to a node here. FAILED_PRECONDITION says why not.
  virtual Status CheckLogin() const { return {}; }

  // The digest of the base image that a node made now, of this runtime version, gets; a node keeps
  // the one it was made with.
  virtual std::string ImageFor(std::string_view /*runtime_version*/) const { return {}; }

  // Brings the node's VMs a step nearer to what its state asks (model::DesiredOf) and says how they
  // are now. Never waits: what takes time goes on elsewhere and ends in a call of `wake`.
  // Idempotent, and right from whatever a crash left. `project` is the node's project's metadata.
  virtual model::Observation Converge(const model::NodeRecord& node,
                                      const model::ProjectRecord& project) = 0;

  // `wake` is called with a node's name when there is news of it; it may not call back. Once this
  // returns, the one before is not called any more.
  void set_wake(std::function<void(const std::string&)> wake) {
    const MutexLock lock(wake_mutex_);
    wake_ = std::move(wake);
  }

 protected:
  void Wake(const std::string& node) {
    const MutexLock lock(wake_mutex_);
    if (wake_) wake_(node);
  }

 private:
  Mutex wake_mutex_;
  std::function<void(const std::string&)> wake_ TORUS_GUARDED_BY(wake_mutex_);
};

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_BACKEND_H_
