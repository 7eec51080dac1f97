// A queue that never has more tasks than threads which wait for one.
#include "tpu/device/helper_threads.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace torus::tpu {
namespace {

constexpr std::chrono::seconds kIdle{10};

struct Helpers {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> tasks;
  size_t idle = 0;
};

// Never destroyed: threads may outlive exit handlers.
Helpers& helpers() {
  static Helpers& helpers = *new Helpers;
  return helpers;
}

void Help(std::function<void()> task) {
  Helpers& h = helpers();
  while (true) {
    task();
    task = nullptr;  // what it holds goes now, not with the next task
    std::unique_lock lock(h.mutex);
    ++h.idle;
    const bool woken = h.wake.wait_for(lock, kIdle, [&] { return !h.tasks.empty(); });
    --h.idle;
    if (!woken) return;
    task = std::move(h.tasks.front());
    h.tasks.pop_front();
  }
}

}  // namespace

void RunOnHelper(std::function<void()> task) {
  Helpers& h = helpers();
  {
    const std::lock_guard lock(h.mutex);
    if (h.tasks.size() < h.idle) {
      h.tasks.push_back(std::move(task));
      h.wake.notify_one();
      return;
    }
  }
  try {
    std::thread(Help, task).detach();
  } catch (const std::system_error&) {
    task();
  }
}

}  // namespace torus::tpu
