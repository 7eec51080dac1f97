#include "tpu/tensorflow/runtime/transfer.h"

#include <algorithm>
#include <latch>
#include <numeric>
#include <utility>

#include "tpu/pjrt/args.h"
#include "tpu/tensorflow/runtime/tpu.h"

namespace torus::tensorflow {
namespace {

using pjrt::MakeArgs;

// The layout of the host's side, whatever the device's is. INTERNAL where the buffer is none.
Result<std::vector<int64_t>> RowMajor(const Tpu& tpu, PJRT_Buffer* buffer) {
  auto dimensions = MakeArgs<PJRT_Buffer_Dimensions_Args>();
  dimensions.buffer = buffer;
  TORUS_RETURN_IF_ERROR(tpu.Take(Tpu::api()->PJRT_Buffer_Dimensions(&dimensions)));
  std::vector<int64_t> minor_to_major(dimensions.num_dims);
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  return minor_to_major;
}

Result<PJRT_Event*> BeginToHost(const Tpu& tpu, const Array& array, void* data, size_t size) {
  TORUS_ASSIGN_OR_RETURN(const auto buffer, array.buffer());
  TORUS_ASSIGN_OR_RETURN(const auto minor_to_major, RowMajor(tpu, buffer));
  auto layout = MakeArgs<PJRT_Buffer_MemoryLayout>();
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = MakeArgs<PJRT_Buffer_MemoryLayout_Tiled>();
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  auto args = MakeArgs<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = buffer;
  args.host_layout = &layout;
  args.dst = data;
  args.dst_size = size;
  TORUS_RETURN_IF_ERROR(tpu.Take(Tpu::api()->PJRT_Buffer_ToHostBuffer(&args)));
  return args.event;
}

Result<PJRT_Buffer*> BeginCopy(int device, const Array& array) {
  TORUS_ASSIGN_OR_RETURN(const auto tpu, Tpu::Get());
  auto args = MakeArgs<PJRT_Buffer_CopyToDevice_Args>();
  TORUS_ASSIGN_OR_RETURN(args.buffer, array.buffer());
  TORUS_ASSIGN_OR_RETURN(args.dst_device, tpu->device(device));
  TORUS_RETURN_IF_ERROR(tpu->Take(Tpu::api()->PJRT_Buffer_CopyToDevice(&args)));
  return args.dst_buffer;
}

}  // namespace

bool ArrayShape::HasElements() const {
  return std::ranges::find(dimensions, 0) == dimensions.end();
}

Result<std::shared_ptr<Array>> ToDevice(int device, const ArrayShape& shape, const void* data,
                                        std::function<void(Status)> done) {
  TORUS_ASSIGN_OR_RETURN(const auto tpu, Tpu::Get());
  auto args = MakeArgs<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = tpu->client();
  args.data = data;
  args.type = shape.type;
  args.dims = shape.dimensions.data();
  args.num_dims = shape.dimensions.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  TORUS_ASSIGN_OR_RETURN(args.device, tpu->device(device));
  TORUS_RETURN_IF_ERROR(tpu->Take(Tpu::api()->PJRT_Client_BufferFromHostBuffer(&args)));
  tpu->WhenReady(args.done_with_host_buffer, std::move(done));
  return std::make_shared<Array>(args.buffer);
}

Result<std::shared_ptr<Array>> Zeros(int device, const ArrayShape& shape) {
  constexpr size_t kWidestElement = 16;  // bytes, of C128
  const auto elements = std::accumulate(shape.dimensions.begin(), shape.dimensions.end(), size_t{1},
                                        std::multiplies<>());
  const auto data = std::make_shared<std::vector<char>>(elements * kWidestElement);
  return ToDevice(device, shape, data->data(), [data](const Status&) {});
}

void ToHost(std::shared_ptr<Array> array, void* data, size_t size,
            std::function<void(Status)> done) {
  array->WhenResolved([array, data, size, done = std::move(done)] {
    const auto tpu = Tpu::Get();
    if (!tpu) return done(tpu.error());
    const auto event = BeginToHost(**tpu, *array, data, size);
    if (!event) return done(event.error());
    (*tpu)->WhenReady(*event, [array, done](Status status) { done(std::move(status)); });
  });
}

Result<std::vector<int64_t>> WaitForDimensions(std::shared_ptr<Array> array) {
  std::latch resolved(1);
  array->WhenResolved([&resolved] { resolved.count_down(); });
  resolved.wait();
  TORUS_ASSIGN_OR_RETURN(const auto tpu, Tpu::Get());
  auto args = MakeArgs<PJRT_Buffer_UnpaddedDimensions_Args>();
  TORUS_ASSIGN_OR_RETURN(args.buffer, array->buffer());
  TORUS_RETURN_IF_ERROR(tpu->Take(Tpu::api()->PJRT_Buffer_UnpaddedDimensions(&args)));
  return std::vector<int64_t>(args.unpadded_dims, args.unpadded_dims + args.num_dims);
}

std::shared_ptr<Array> CopyTo(int device, int from, std::shared_ptr<Array> array) {
  if (device == from) return array;
  auto copy = std::make_shared<Array>();
  auto& source = *array;
  source.WhenResolved([device, array = std::move(array), copy]() mutable {
    auto buffer = BeginCopy(device, *array);
    array = nullptr;
    Array::Resolve(std::move(copy), std::move(buffer));
  });
  return copy;
}

}  // namespace torus::tensorflow
