#include "tpu/device/pointer_map.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace torus::tpu {
namespace {

const void* Key(uintptr_t number) { return reinterpret_cast<const void*>(number * 16); }

TEST(PointerMap, DoesAsAnUnorderedMapDoes) {
  PointerMap<int> map;
  std::unordered_map<const void*, int> model;
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const void* key = Key(1 + random() % 500);
    switch (random() % 3) {
      case 0:
        map.Insert(key, i);
        model[key] = i;
        break;
      case 1: {
        const auto found = map.Find(key);
        ASSERT_EQ(found.has_value(), model.contains(key));
        if (found) {
          ASSERT_EQ(*found, model[key]);
        }
        break;
      }
      default: {
        const auto taken = map.Take(key);
        ASSERT_EQ(taken.has_value(), model.contains(key));
        if (taken) {
          ASSERT_EQ(*taken, model[key]);
        }
        model.erase(key);
      }
    }
    ASSERT_EQ(map.size(), model.size());
  }
}

TEST(PointerMap, ErasesByPredicate) {
  PointerMap<int> map;
  for (int i = 1; i <= 1000; ++i) map.Insert(Key(i), i);
  map.EraseIf([](int value) { return value % 2 == 0; });
  EXPECT_EQ(map.size(), 500u);
  EXPECT_EQ(map.Find(Key(7)), 7);
  EXPECT_EQ(map.Find(Key(8)), std::nullopt);
}

TEST(PointerMap, IsSharedByThreads) {
  PointerMap<int> map;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&map, t] {
      for (int i = 0; i < 20000; ++i) {
        const void* key = Key(1 + t + 4 * (i % 100));
        map.Insert(key, i);
        EXPECT_EQ(map.Take(key), i);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(map.size(), 0u);
}

}  // namespace
}  // namespace torus::tpu
