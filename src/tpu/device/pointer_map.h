// A map from addresses to small values, for the hot path of a dispatch.
//
// PJRT hands out opaque objects of the engine; what we know of them stands in maps like this one,
// beside them, so that the engine's own extensions still see their own objects. An insert and a
// removal together cost some 20 ns: keys are spread over shards, each an open-addressed table
// behind its own spin lock, with nothing allocated but to grow. Thread-safety: all methods, from
// any thread; EraseIf sees each shard at one moment.
#ifndef TORUS_TPU_DEVICE_POINTER_MAP_H_
#define TORUS_TPU_DEVICE_POINTER_MAP_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace torus::tpu {

// Held for a few tens of nanoseconds at a time, where a mutex's two locked instructions and calls
// would be half of the cost.
class TORUS_CAPABILITY("mutex") SpinLock {
 public:
  void lock() TORUS_ACQUIRE() {
    for (int spins = 0; taken_.exchange(true, std::memory_order_acquire); ++spins) {
      if (spins >= kSpins) std::this_thread::yield();  // its holder may be off the processor
    }
  }
  void unlock() TORUS_RELEASE() { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;
  std::atomic<bool> taken_ = false;
};

// Value is copied freely. Keys are not null.
template <typename Value>
class PointerMap {
 public:
  // Adds the key or replaces its value.
  void Insert(const void* key, Value value) {
    Shard& shard = ShardOf(key);
    const Guard guard(shard.lock);
    shard.Insert(key, std::move(value));
  }

  std::optional<Value> Find(const void* key) const {
    const Shard& shard = ShardOf(key);
    const Guard guard(shard.lock);
    const size_t at = shard.IndexOf(key);
    if (at == kNowhere) return std::nullopt;
    return shard.slots[at].value;
  }

  // Removes the key and returns its value, if it was there.
  std::optional<Value> Take(const void* key) {
    Shard& shard = ShardOf(key);
    const Guard guard(shard.lock);
    const size_t at = shard.IndexOf(key);
    if (at == kNowhere) return std::nullopt;
    std::optional<Value> value(std::move(shard.slots[at].value));
    shard.Remove(at);
    return value;
  }

  // Changes the value of the key, if it is there, under its lock.
  template <typename Change>
  void Update(const void* key, Change change) {
    Shard& shard = ShardOf(key);
    const Guard guard(shard.lock);
    const size_t at = shard.IndexOf(key);
    if (at != kNowhere) change(shard.slots[at].value);
  }

  // Removes the entries whose value satisfies `predicate`.
  template <typename Predicate>
  void EraseIf(Predicate predicate) {
    for (Shard& shard : shards_) {
      const Guard guard(shard.lock);
      const auto old = std::exchange(shard.slots, {});
      shard.count = 0;
      for (const Slot& slot : old) {
        if (slot.key != nullptr && !predicate(slot.value)) shard.Insert(slot.key, slot.value);
      }
    }
  }

  size_t size() const {
    size_t total = 0;
    for (const Shard& shard : shards_) {
      const Guard guard(shard.lock);
      total += shard.count;
    }
    return total;
  }

 private:
  static constexpr size_t kShards = 16;
  static constexpr size_t kNowhere = ~size_t{0};
  static constexpr size_t kSmallest = 16;

  struct Slot {
    const void* key = nullptr;
    Value value{};
  };

  // Objects are aligned, so the low bits say nothing; multiplying brings the others to the top.
  static size_t Hash(const void* key) {
    return (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9E3779B97F4A7C15u;
  }

  // Linear probing; the number of slots is a power of two and at most half of them are taken.
  struct alignas(64) Shard {
    mutable SpinLock lock;
    std::vector<Slot> slots TORUS_GUARDED_BY(lock);
    size_t count TORUS_GUARDED_BY(lock) = 0;

    size_t Home(const void* key) const TORUS_REQUIRES(lock) {
      return (Hash(key) >> 16) & (slots.size() - 1);
    }
    size_t Next(size_t at) const TORUS_REQUIRES(lock) { return (at + 1) & (slots.size() - 1); }

    size_t IndexOf(const void* key) const TORUS_REQUIRES(lock) {
      if (count == 0) return kNowhere;
      for (size_t at = Home(key); slots[at].key != nullptr; at = Next(at)) {
        if (slots[at].key == key) return at;
      }
      return kNowhere;
    }

    void Insert(const void* key, Value value) TORUS_REQUIRES(lock) {
      if (2 * (count + 1) > slots.size()) Grow();
      size_t at = Home(key);
      while (slots[at].key != nullptr && slots[at].key != key) at = Next(at);
      if (slots[at].key == nullptr) ++count;
      slots[at] = {key, std::move(value)};
    }

    // Moves later entries of the run back, so that no search stops at the gap.
    void Remove(size_t gap) TORUS_REQUIRES(lock) {
      for (size_t at = Next(gap); slots[at].key != nullptr; at = Next(at)) {
        const size_t home = Home(slots[at].key);
        const size_t mask = slots.size() - 1;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
          slots[gap] = std::move(slots[at]);
          gap = at;
        }
      }
      slots[gap] = Slot{};
      --count;
    }

    void Grow() TORUS_REQUIRES(lock) {
      std::vector<Slot> bigger(slots.empty() ? kSmallest : 2 * slots.size());
      slots.swap(bigger);
      count = 0;
      for (Slot& slot : bigger) {
        if (slot.key != nullptr) Insert(slot.key, std::move(slot.value));
      }
    }
  };

  Shard& ShardOf(const void* key) { return shards_[Hash(key) >> 60]; }
  const Shard& ShardOf(const void* key) const { return shards_[Hash(key) >> 60]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_POINTER_MAP_H_
