#include "tpu/tensorflow/runtime/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "tpu/tensorflow/runtime/testing.h"

namespace torus::tensorflow {
namespace {

using ArrayTest = TpuTest;

TEST_F(ArrayTest, CallsWhoCameBeforeItWasResolvedAndWhoCameAfter) {
  const auto array = std::make_shared<Array>();
  int before = 0, after = 0;
  array->WhenResolved([&] { ++before; });
  EXPECT_EQ(before, 0);
  Array::Resolve(array, MakeBuffer(1));
  EXPECT_EQ(before, 1);
  array->WhenResolved([&] { ++after; });
  EXPECT_EQ(after, 1);
  EXPECT_EQ(before, 1);
}

TEST_F(ArrayTest, HasItsBufferWhenItCalls) {
  const auto array = std::make_shared<Array>();
  auto* const buffer = MakeBuffer(1);
  PJRT_Buffer* seen = nullptr;
  array->WhenResolved([&] { seen = *array->buffer(); });
  Array::Resolve(array, buffer);
  EXPECT_EQ(seen, buffer);
}

TEST_F(ArrayTest, HasTheErrorThatItWasResolvedWith) {
  const auto array = std::make_shared<Array>();
  Array::Resolve(array, Internal("no such luck"));
  EXPECT_EQ(array->buffer().error(), Status(Code::kInternal, "no such luck"));
  EXPECT_EQ(Read(array).error().message(), "no such luck");
}

TEST_F(ArrayTest, IsLetGoOfBeforeItCalls) {
  auto array = std::make_shared<Array>();
  const std::weak_ptr<Array> watched = array;
  auto& waited_for = *array;
  bool gone = false;
  waited_for.WhenResolved([&] { gone = watched.expired(); });
  Array::Resolve(std::move(array), MakeBuffer(1));
  EXPECT_TRUE(gone);
}

TEST_F(ArrayTest, FreesItsBufferInTheEnd) {
  const int before = fake_pjrt::LiveBuffers();
  auto array = MakeArray(0, 1);
  EXPECT_EQ(fake_pjrt::LiveBuffers(), before + 1);
  array = nullptr;
  EXPECT_EQ(fake_pjrt::LiveBuffers(), before);
}

TEST_F(ArrayTest, CallsEveryOneOfManyThreadsOnce) {
  constexpr int kThreads = 8;
  const auto array = std::make_shared<Array>();
  std::latch start(kThreads + 1);
  std::atomic<int> calls = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        array->WhenResolved([&] { ++calls; });
      });
    start.arrive_and_wait();
    Array::Resolve(array, MakeBuffer(1));
  }
  EXPECT_EQ(calls, kThreads);
}

using DeviceMemoryTest = TpuTest;

TEST_F(DeviceMemoryTest, HasNoArrayUntilSomethingIsWritten) {
  DeviceMemory memory(3, 4);
  EXPECT_EQ(memory.device(), 3);
  EXPECT_EQ(memory.size(), 4u);
  EXPECT_EQ(memory.array(), nullptr);
}

TEST_F(DeviceMemoryTest, RewrittenWhileAReaderWaitsKeepsTheReadersValue) {
  DeviceMemory memory(0, 4);
  const auto first = std::make_shared<Array>();
  memory.Set(first);
  auto reader = BeginRead(memory.array());
  memory.Set(MakeArray(0, 2));
  EXPECT_EQ(Read(memory.array()), 2);
  EXPECT_FALSE(Has(reader));
  Array::Resolve(first, MakeBuffer(1));
  EXPECT_EQ(Soon(std::move(reader)), 1);
}

TEST_F(DeviceMemoryTest, FreesWhatItHeldOnceNobodyReadsIt) {
  const int before = fake_pjrt::LiveBuffers();
  DeviceMemory memory(0, 4);
  memory.Set(MakeArray(0, 1));
  auto reader = memory.array();
  memory.Set(nullptr);
  EXPECT_EQ(fake_pjrt::LiveBuffers(), before + 1);
  reader = nullptr;
  EXPECT_EQ(fake_pjrt::LiveBuffers(), before);
}

}  // namespace
}  // namespace torus::tensorflow
