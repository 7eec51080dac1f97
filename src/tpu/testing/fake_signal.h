// Something of the fake engine that happens once, well or with an error. Whoever needs it waits, or
// is called. Thread-safety: all methods, from any thread.
#ifndef TORUS_TPU_TESTING_FAKE_SIGNAL_H_
#define TORUS_TPU_TESTING_FAKE_SIGNAL_H_

#include <functional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace torus::tpu::fake {

class Signal {
 public:
  using Callback = std::function<void(const Status&)>;

  // Only the first counts.
  void Set(Status status) {
    std::vector<Callback> callbacks;
    {
      const MutexLock lock(mutex_);
      if (is_set_) return;
      is_set_ = true;
      status_ = status;
      callbacks.swap(callbacks_);
      changed_.NotifyAll();
    }
    for (const Callback& callback : callbacks) callback(status);
  }

  bool is_set() const {
    const MutexLock lock(mutex_);
    return is_set_;
  }

  Status Await() const {
    MutexLock lock(mutex_);
    while (!is_set_) changed_.Wait(lock);
    return status_;
  }

  // Calls it at once where it has happened already.
  void OnSet(Callback callback) {
    {
      const MutexLock lock(mutex_);
      if (!is_set_) return callbacks_.push_back(std::move(callback));
    }
    callback(Await());
  }

 private:
  mutable Mutex mutex_;
  mutable Condition changed_;
  bool is_set_ TORUS_GUARDED_BY(mutex_) = false;
  Status status_ TORUS_GUARDED_BY(mutex_);
  std::vector<Callback> callbacks_ TORUS_GUARDED_BY(mutex_);
};

}  // namespace torus::tpu::fake

#endif  // TORUS_TPU_TESTING_FAKE_SIGNAL_H_
