// What a piece of device memory holds: a PJRT buffer that is there, or will be.
//
// TensorFlow names memory before a program has filled it, and fills it again with the next step's
// values. Here the memory is a name and each value an Array of its own, which never changes once it
// is there: who reads takes the Array at the time of asking, and no order of streams has to be
// kept. Thread-safety: Array: all. DeviceMemory: as TensorFlow orders its calls; its array is
// locked.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_ARRAY_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_ARRAY_H_

#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "tpu/pjrt/api.h"

namespace torus::tensorflow {

class Array {
 public:
  // One that a program will make.
  Array() = default;
  // One that is there; takes the buffer.
  explicit Array(PJRT_Buffer* buffer) : resolved_(true), buffer_(buffer) {}
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  // Once: the program was launched, or will not be. Takes the buffer. Lets go of the array before
  // it calls those who wait, who may ask whether they are the only ones that hold it.
  static void Resolve(std::shared_ptr<Array> array, Result<PJRT_Buffer*> buffer);

  // Calls `then` when it is resolved: now, or on the thread that resolves it.
  void WhenResolved(std::function<void()> then);

  // REQUIRES: it is resolved. Lives as long as this.
  Result<PJRT_Buffer*> buffer() const;

 private:
  mutable Mutex mutex_;
  bool resolved_ TORUS_GUARDED_BY(mutex_) = false;
  PJRT_Buffer* buffer_ TORUS_GUARDED_BY(mutex_) = nullptr;
  Status status_ TORUS_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> waiters_ TORUS_GUARDED_BY(mutex_);
};

// Memory as TensorFlow holds it: `opaque` of a DeviceMemoryBase points to one.
class DeviceMemory {
 public:
  DeviceMemory(int device, uint64_t size) : device_(device), size_(size) {}

  int device() const { return device_; }
  uint64_t size() const { return size_; }  // bytes, as TensorFlow asked for
  // Null where nothing was written yet.
  std::shared_ptr<Array> array() const;
  void Set(std::shared_ptr<Array> array);

  // A tuple's table: the memory of its elements, null for those of no bytes.
  std::vector<DeviceMemory*> elements;

 private:
  const int device_;
  const uint64_t size_;
  mutable Mutex mutex_;
  std::shared_ptr<Array> array_ TORUS_GUARDED_BY(mutex_);
};

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_ARRAY_H_
