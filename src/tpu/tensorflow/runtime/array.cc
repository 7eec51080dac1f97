#include "tpu/tensorflow/runtime/array.h"

#include <utility>

#include "tpu/pjrt/args.h"
#include "tpu/tensorflow/runtime/tpu.h"

namespace torus::tensorflow {

Array::~Array() {
  if (buffer_ == nullptr) return;
  auto args = pjrt::MakeArgs<PJRT_Buffer_Destroy_Args>();
  args.buffer = buffer_;
  Take(Tpu::api(), Tpu::api()->PJRT_Buffer_Destroy(&args)).ok();
}

void Array::Resolve(std::shared_ptr<Array> array, Result<PJRT_Buffer*> buffer) {
  std::vector<std::function<void()>> waiters;
  {
    const MutexLock lock(array->mutex_);
    array->resolved_ = true;
    if (buffer)
      array->buffer_ = *buffer;
    else
      array->status_ = std::move(buffer).error();
    waiters.swap(array->waiters_);
  }
  array = nullptr;
  for (const auto& then : waiters) then();
}

void Array::WhenResolved(std::function<void()> then) {
  {
    const MutexLock lock(mutex_);
    if (!resolved_) return waiters_.push_back(std::move(then));
  }
  then();
}

Result<PJRT_Buffer*> Array::buffer() const {
  const MutexLock lock(mutex_);
  if (!status_.ok()) return Error(status_);
  return buffer_;
}

std::shared_ptr<Array> DeviceMemory::array() const {
  const MutexLock lock(mutex_);
  return array_;
}

void DeviceMemory::Set(std::shared_ptr<Array> array) {
  std::shared_ptr<Array> former;  // freed without the lock
  const MutexLock lock(mutex_);
  former = std::exchange(array_, std::move(array));
}

}  // namespace torus::tensorflow
