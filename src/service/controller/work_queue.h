// A keyed work queue: serial for a key, parallel across keys, with delays and back-off.
//
// A key that is added while its work runs is run once more after it, however often it was added: so
// work that re-reads the world misses nothing. Keys may be added for later; the earliest time wins.
//
// Thread-safety: all methods from any thread.
#ifndef TORUS_SERVICE_CONTROLLER_WORK_QUEUE_H_
#define TORUS_SERVICE_CONTROLLER_WORK_QUEUE_H_

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace torus::controller {

class WorkQueue {
 public:
  using Clock = std::chrono::steady_clock;
  // Does a key's work; says how long to wait before doing it again, or nullopt: until it is added.
  using Work = std::function<std::optional<Clock::duration>(const std::string& key)>;

  // Starts `threads` threads.
  WorkQueue(int threads, Work work);
  // Stops at once: what runs ends, what waits is dropped.
  ~WorkQueue();

  void Add(const std::string& key) { AddAt(key, Clock::now()); }
  void AddAt(const std::string& key, Clock::time_point when);

 private:
  void Run();

  const Work work_;
  Mutex mutex_;
  Condition wake_;
  std::map<std::string, Clock::time_point> waiting_ TORUS_GUARDED_BY(mutex_);
  // The same, in order.
  std::set<std::pair<Clock::time_point, std::string>> by_time_ TORUS_GUARDED_BY(mutex_);
  std::set<std::string> running_ TORUS_GUARDED_BY(mutex_);
  bool stopping_ TORUS_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace torus::controller

#endif  // TORUS_SERVICE_CONTROLLER_WORK_QUEUE_H_
