// A stream: what TensorFlow asked of a device, in the order it asked, and what is still to end.
//
// Work itself is ordered by the values it reads (array.h) and ends in any order; a stream keeps
// what others wait for: a host callback runs once all before it has ended, and what comes after it
// waits in turn. Thread-safety: all.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_STREAM_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_STREAM_H_

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace torus::tensorflow {

// Something that happens once, and those who wait for it.
class Completion {
 public:
  void Complete();
  bool completed() const;
  // Now, or on the thread that completes it.
  void WhenCompleted(std::function<void()> then);

 private:
  mutable Mutex mutex_;
  bool completed_ TORUS_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> waiters_ TORUS_GUARDED_BY(mutex_);
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> Make() { return std::shared_ptr<Stream>(new Stream); }

  // Work that begins; the function is called when it has ended, once, from any thread. It keeps the
  // stream alive.
  std::function<void(Status)> Begin();

  // Calls back once everything so far has ended, on a thread of its own; an error it returns is the
  // stream's.
  void Then(std::function<Status()> callback);

  // Completed once everything so far has ended.
  std::shared_ptr<Completion> Mark();

  // What comes later waits for it.
  void Await(const std::shared_ptr<Completion>& completion);

  // Blocks until everything so far has ended. The first error since the last Wait.
  Status Wait();

  // The first error since the last Wait, of what has ended.
  Status status() const;

 private:
  struct Item;
  using ItemPtr = std::shared_ptr<Item>;
  struct Item {
    bool ended = false;
    // Begins it once all before has ended, and sees to it that it ends.
    std::function<void(const ItemPtr&)> at_head;
  };

  Stream() = default;
  ItemPtr Add(std::function<void(const ItemPtr&)> at_head);
  void End(const ItemPtr& item, Status status);
  // Begins what is at the head now.
  void Advance();

  mutable Mutex mutex_;
  std::deque<ItemPtr> items_ TORUS_GUARDED_BY(mutex_);  // and what they hold
  Status status_ TORUS_GUARDED_BY(mutex_);
};

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_STREAM_H_
