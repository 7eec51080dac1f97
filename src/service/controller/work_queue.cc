#include "service/controller/work_queue.h"

#include <algorithm>

namespace torus::controller {

WorkQueue::WorkQueue(int threads, Work work) : work_(std::move(work)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void WorkQueue::AddAt(const std::string& key, Clock::time_point when) {
  {
    std::lock_guard lock(mutex_);
    const auto [entry, added] = waiting_.try_emplace(key, when);
    if (!added) {
      if (entry->second <= when) return;
      by_time_.erase({entry->second, key});
      entry->second = when;
    }
    by_time_.emplace(when, key);
  }
  wake_.notify_one();
}

void WorkQueue::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    // The first that is due and whose work is not running.
    const auto idle = [this](const auto& entry) { return !running_.contains(entry.second); };
    const auto next = std::ranges::find_if(by_time_, idle);
    if (next == by_time_.end()) {
      wake_.wait(lock);
      continue;
    }
    if (next->first > Clock::now()) {
      const auto when = next->first;
      wake_.wait_until(lock, when);
      continue;
    }
    const std::string key = next->second;
    by_time_.erase(next);
    waiting_.erase(key);
    running_.insert(key);
    lock.unlock();
    const auto again = work_(key);
    if (again) AddAt(key, Clock::now() + *again);
    lock.lock();
    running_.erase(key);
    // Someone may have gone to sleep because this key was running.
    wake_.notify_all();
  }
}

}  // namespace torus::controller
