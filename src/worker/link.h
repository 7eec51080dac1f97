// The worker's line to the service: dials its Unix socket for ever, hands on orders, and sends what
// the worker has observed.
//
// A broken stream is dialled again with back-off (20 ms to 1 s); the VM runs on meanwhile. After
// each dial the newest report is sent again, so the service needs no memory of it. A service that
// refuses is logged with what it says, once for each new answer; one that is away is not news.
//
// Thread-safe. Threads: two of its own; `on_order` is called on one of them.
#ifndef TORUS_WORKER_LINK_H_
#define TORUS_WORKER_LINK_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "worker.pb.h"

namespace torus::worker {

class Link {
 public:
  Link(std::string socket, Hello hello, std::function<void(const WorkerOrder&)> on_order);
  // Sends what is left to send, two seconds at most.
  ~Link();

  // Replaces the report to send; the newest wins.
  void Report(Observed observed);

  // Waits until the newest report is on its way; false when `limit` came first.
  bool Flush(std::chrono::milliseconds limit);

 private:
  void Run();
  // One stream, from dialling to its end; whether the service had taken it for a while.
  bool Talk();
  void LogEnd(bool accepted, int code, const std::string& message);

  const std::string socket_;
  const Hello hello_;
  const std::function<void(const WorkerOrder&)> on_order_;

  Mutex mutex_;
  Condition wake_;
  std::optional<Observed> report_ TORUS_GUARDED_BY(mutex_);
  bool unsent_ TORUS_GUARDED_BY(mutex_) = false;  // report_ is to be sent
  bool stopping_ TORUS_GUARDED_BY(mutex_) = false;
  bool broken_ TORUS_GUARDED_BY(mutex_) = false;  // of the present stream
  std::string refusal_;  // the thread's own: what the service refused with, as logged
  std::thread thread_;
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_LINK_H_
