// Locks whose use clang checks: a member says what guards it, a function what its caller holds, and
// the clang build (-Wthread-safety -Werror) refuses what breaks that. The standard library's own
// carry no annotations. Header-only, because libtpu.so uses it too.
//
//   Mutex mutex_;
//   std::string detail_ TORUS_GUARDED_BY(mutex_);
//   void Send() TORUS_REQUIRES(mutex_);
//
//   MutexLock lock(mutex_);
//   while (detail_.empty()) changed_.Wait(lock);  // a lambda would be another function to clang
#ifndef TORUS_BASE_MUTEX_H_
#define TORUS_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define TORUS_ATTRIBUTE_(attribute) __attribute__((attribute))
#else
#define TORUS_ATTRIBUTE_(attribute)
#endif
#define TORUS_CAPABILITY(kind) TORUS_ATTRIBUTE_(capability(kind))
#define TORUS_SCOPED_CAPABILITY TORUS_ATTRIBUTE_(scoped_lockable)
#define TORUS_GUARDED_BY(mutex) TORUS_ATTRIBUTE_(guarded_by(mutex))
#define TORUS_REQUIRES(...) TORUS_ATTRIBUTE_(requires_capability(__VA_ARGS__))
#define TORUS_ACQUIRE(...) TORUS_ATTRIBUTE_(acquire_capability(__VA_ARGS__))
#define TORUS_RELEASE(...) TORUS_ATTRIBUTE_(release_capability(__VA_ARGS__))
#define TORUS_ASSERT_HELD() TORUS_ATTRIBUTE_(assert_capability(this))

namespace torus {

class TORUS_CAPABILITY("mutex") Mutex {
 public:
  void lock() TORUS_ACQUIRE() { mutex_.lock(); }
  void unlock() TORUS_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

class TORUS_CAPABILITY("mutex") RecursiveMutex {
 public:
  void lock() TORUS_ACQUIRE() { mutex_.lock(); }
  void unlock() TORUS_RELEASE() { mutex_.unlock(); }
  // Tells clang, where it cannot see it, that the caller holds this one. Checks nothing.
  void AssertHeld() const TORUS_ASSERT_HELD() {}

 private:
  std::recursive_mutex mutex_;
};

// Holds a lock of any annotated kind to the end of a scope.
template <typename Lock>
class TORUS_SCOPED_CAPABILITY Guard {
 public:
  explicit Guard(Lock& lock) TORUS_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~Guard() TORUS_RELEASE() { lock_.unlock(); }
  Guard(const Guard&) = delete;

 private:
  Lock& lock_;
};

// Holds a Mutex to the end of a scope; may let go of it for a while, and wait for a Condition.
class TORUS_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TORUS_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() TORUS_RELEASE() {}
  MutexLock(const MutexLock&) = delete;

  void Unlock() TORUS_RELEASE() { lock_.unlock(); }
  void Lock() TORUS_ACQUIRE() { lock_.lock(); }

 private:
  friend class Condition;
  std::unique_lock<std::mutex> lock_;
};

// A condition variable. A wait may end for nothing: wait in a loop.
class Condition {
 public:
  void Wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  // False once `when` has come.
  bool WaitUntil(MutexLock& lock, std::chrono::steady_clock::time_point when) {
    return condition_.wait_until(lock.lock_, when) == std::cv_status::no_timeout;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace torus

#endif  // TORUS_BASE_MUTEX_H_
