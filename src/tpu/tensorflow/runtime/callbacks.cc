#include "tpu/tensorflow/runtime/callbacks.h"

#include <deque>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace torus::tensorflow {
namespace {

// Never destroyed: its threads last as long as the process.
struct Pool {
  Mutex mutex;
  Condition wake;
  std::deque<std::function<void()>> waiting TORUS_GUARDED_BY(mutex);
  size_t idle TORUS_GUARDED_BY(mutex) = 0;

  void Work() {
    MutexLock lock(mutex);
    while (true) {
      ++idle;
      while (waiting.empty()) wake.Wait(lock);
      --idle;
      auto callback = std::move(waiting.front());
      waiting.pop_front();
      lock.Unlock();
      callback();
      callback = nullptr;
      lock.Lock();
    }
  }
};

}  // namespace

void CallBack(std::function<void()> callback) {
  static Pool& pool = *new Pool;
  const MutexLock lock(pool.mutex);
  pool.waiting.push_back(std::move(callback));
  if (pool.waiting.size() <= pool.idle)
    pool.wake.NotifyOne();
  else
    std::thread([] { pool.Work(); }).detach();
}

}  // namespace torus::tensorflow
