// A queue that never has more tasks than threads which wait for one.
#include "tpu/device/helper_threads.h"

#include <chrono>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace torus::tpu {
namespace {

using Task = std::function<void()>;

constexpr std::chrono::seconds kIdle{10};

class Helpers {
 public:
  // Gives the task to a thread that waits for one, if there is one for it.
  bool Offer(Task& task) {
    const MutexLock lock(mutex_);
    if (tasks_.size() >= idle_) return false;
    tasks_.push_back(std::move(task));
    wake_.NotifyOne();
    return true;
  }

  // Waits for a task; none comes for a while: an empty one.
  Task Next() {
    const auto until = std::chrono::steady_clock::now() + kIdle;
    MutexLock lock(mutex_);
    ++idle_;
    while (tasks_.empty() && wake_.WaitUntil(lock, until)) {
    }
    --idle_;
    Task task;
    if (!tasks_.empty()) {
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    return task;
  }

 private:
  Mutex mutex_;
  Condition wake_;
  std::deque<Task> tasks_ TORUS_GUARDED_BY(mutex_);
  size_t idle_ TORUS_GUARDED_BY(mutex_) = 0;  // threads that wait
};

// Never destroyed: threads may outlive exit handlers.
Helpers& helpers() {
  static Helpers& helpers = *new Helpers;
  return helpers;
}

void Help(Task task) {
  while (task) {
    task();
    task = nullptr;  // what it holds goes now, not with the next task
    task = helpers().Next();
  }
}

}  // namespace

void RunOnHelper(Task task) {
  if (helpers().Offer(task)) return;
  try {
    std::thread(Help, task).detach();
  } catch (const std::system_error&) {
    task();
  }
}

}  // namespace torus::tpu
