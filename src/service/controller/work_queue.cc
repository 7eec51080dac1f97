#include "service/controller/work_queue.h"

namespace torus::controller {

WorkQueue::WorkQueue(int threads, Work work) : work_(std::move(work)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkQueue::~WorkQueue() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (auto& thread : threads_) thread.join();
}

void WorkQueue::AddAt(const std::string& key, Clock::time_point when) {
  {
    const MutexLock lock(mutex_);
    const auto [entry, added] = waiting_.try_emplace(key, when);
    if (!added) {
      if (entry->second <= when) return;
      by_time_.erase({entry->second, key});
      entry->second = when;
    }
    by_time_.emplace(when, key);
  }
  wake_.NotifyOne();
}

void WorkQueue::Run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    // The first that is due and whose work is not running.
    auto next = by_time_.begin();
    while (next != by_time_.end() && running_.contains(next->second)) ++next;
    if (next == by_time_.end()) {
      wake_.Wait(lock);
      continue;
    }
    if (next->first > Clock::now()) {
      const auto when = next->first;
      wake_.WaitUntil(lock, when);
      continue;
    }
    const std::string key = next->second;
    by_time_.erase(next);
    waiting_.erase(key);
    running_.insert(key);
    lock.Unlock();
    const auto again = work_(key);
    if (again) AddAt(key, Clock::now() + *again);
    lock.Lock();
    running_.erase(key);
    // Someone may have gone to sleep because this key was running.
    wake_.NotifyAll();
  }
}

}  // namespace torus::controller
