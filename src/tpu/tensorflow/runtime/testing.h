// What this room's tests do often, over the fake PJRT API.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_TESTING_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_TESTING_H_

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "tpu/pjrt/args.h"
#include "tpu/tensorflow/runtime/array.h"
#include "tpu/tensorflow/runtime/fake_pjrt.h"
#include "tpu/tensorflow/runtime/stream.h"
#include "tpu/tensorflow/runtime/tpu.h"
#include "tpu/tensorflow/runtime/transfer.h"

namespace torus::tensorflow {

// Time enough for what happens at once, on a busy machine too.
inline constexpr std::chrono::seconds kSoon{20};

inline const ArrayShape kOneFloat{PJRT_Buffer_Type_F32, {1}};

class TpuTest : public ::testing::Test {
 protected:
  TpuTest() { fake_pjrt::Install(); }
};

// The value on a device. REQUIRES: Install.
inline std::shared_ptr<Array> MakeArray(int device, float value) {
  return *ToDevice(device, kOneFloat, &value, [](const Status&) {});
}

// Its buffer, for an array to be resolved with. The caller's.
inline PJRT_Buffer* MakeBuffer(float value) {
  auto args = pjrt::MakeArgs<PJRT_Client_BufferFromHostBuffer_Args>();
  args.data = &value;
  args.dims = kOneFloat.dimensions.data();
  args.num_dims = 1;
  const auto tpu = *Tpu::Get();
  EXPECT_TRUE(tpu->Take(Tpu::api()->PJRT_Client_BufferFromHostBuffer(&args)).ok());
  tpu->WhenReady(args.done_with_host_buffer, [](const Status&) {});
  return args.buffer;
}

// What Read gets; it may come later.
inline std::future<Result<float>> BeginRead(std::shared_ptr<Array> array) {
  const auto value = std::make_shared<float>();
  const auto read = std::make_shared<std::promise<Result<float>>>();
  ToHost(std::move(array), value.get(), sizeof(*value), [value, read](Status status) {
    read->set_value(status.ok() ? Result<float>(*value) : Error(std::move(status)));
  });
  return read->get_future();
}

template <typename T>
bool Has(const std::future<T>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// What the future gives soon; a default where it does not.
template <typename T>
T Soon(std::future<T> future) {
  if (future.wait_for(kSoon) == std::future_status::ready) return future.get();
  ADD_FAILURE() << "it does not come";
  return T();
}

inline Result<float> Read(std::shared_ptr<Array> array) {
  return Soon(BeginRead(std::move(array)));
}

// Whether all that is on the stream ends soon.
inline bool EndsSoon(Stream& stream) {
  const auto ended = std::make_shared<std::promise<void>>();
  stream.Mark()->WhenCompleted([ended] { ended->set_value(); });
  return ended->get_future().wait_for(kSoon) == std::future_status::ready;
}

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_TESTING_H_
