// The HBM of one device: how much of it buffers hold, and whether more fits.
//
// The software TPU keeps buffers in host memory; this is the account that makes a program run out
// of HBM where the chip would. Sizes are bytes.
// Thread-safety: all methods, from any thread; the counters are exact, and a check and the booking
// after it are two steps, as they are on the chip where programs queue.
#ifndef TORUS_TPU_DEVICE_HBM_H_
#define TORUS_TPU_DEVICE_HBM_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "slice/counters.h"

namespace torus::tpu {

// "17.00G", as upstream's errors print sizes.
std::string FormatBytes(int64_t bytes);

class Hbm {
 public:
  // `name` is what errors call it ("0x0x0_HBM0"), and `counters` is where the process shows what is
  // in use; both must outlive this.
  Hbm(int64_t limit, const std::string& name, slice::DeviceCounters& counters)
      : limit_(limit), name_(&name), in_use_(counters.hbm_in_use), peak_(counters.hbm_peak) {
    counters.hbm_total.store(limit, std::memory_order_relaxed);
  }

  int64_t limit() const { return limit_; }
  const std::string& name() const { return *name_; }
  int64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  int64_t free() const { return limit_ - in_use(); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t allocations() const { return allocations_.load(std::memory_order_relaxed); }
  int64_t largest() const { return largest_.load(std::memory_order_relaxed); }

  bool Fits(int64_t bytes) const { return bytes <= free(); }
  // RESOURCE_EXHAUSTED in upstream's words if a buffer of this size does not fit.
  Status CheckBuffer(int64_t bytes) const;

  // Books `count` buffers of `bytes` in all, the largest of them `largest`.
  void Add(int64_t bytes, int64_t count, int64_t largest) {
    RaiseTo(peak_, in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
    allocations_.fetch_add(count, std::memory_order_relaxed);
    RaiseTo(largest_, largest);
  }
  void Remove(int64_t bytes) { in_use_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Books that for a while `bytes` more than now were held: a program's temporaries.
  void NotePeak(int64_t bytes) { RaiseTo(peak_, in_use() + bytes); }
  // Begins the peak and the largest anew.
  void ClearStats() {
    peak_.store(in_use(), std::memory_order_relaxed);
    largest_.store(0, std::memory_order_relaxed);
    allocations_.store(0, std::memory_order_relaxed);
  }

 private:
  static void RaiseTo(std::atomic<int64_t>& value, int64_t at_least) {
    int64_t now = value.load(std::memory_order_relaxed);
    while (now < at_least && !value.compare_exchange_weak(now, at_least, std::memory_order_relaxed))
      ;
  }

  const int64_t limit_;
  const std::string* const name_;
  std::atomic<int64_t>& in_use_;
  std::atomic<int64_t>& peak_;
  std::atomic<int64_t> allocations_ = 0;
  std::atomic<int64_t> largest_ = 0;
};

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_HBM_H_
