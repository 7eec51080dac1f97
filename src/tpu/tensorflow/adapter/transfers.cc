// Between the host's memory and a core's.
#include <latch>

#include "tpu/tensorflow/adapter/handles.h"
#include "tpu/tensorflow/adapter/shapes.h"
#include "tpu/tensorflow/runtime/callbacks.h"
#include "tpu/tensorflow/runtime/transfer.h"
#include "xla/shape_util.h"
#include "xla/stream_executor/tpu/c_api_conversions.h"

namespace torus::tensorflow {
namespace {

// Memory of no bytes is null, and has nothing to copy.
Status CopyToDevice(int ordinal, DeviceMemory* memory, const ArrayShape& shape, const void* data,
                    std::function<void(Status)> done) {
  if (memory == nullptr) {
    done(Status());
    return Status();
  }
  auto array = ToDevice(ordinal, shape, data, done);
  if (!array) {
    done(array.error());
    return array.error();
  }
  memory->Set(*std::move(array));
  return Status();
}

void CopyToHost(DeviceMemory* memory, void* data, size_t size, std::function<void(Status)> done) {
  if (memory == nullptr || size == 0) return done(Status());
  auto array = memory->array();
  if (array == nullptr)
    return done(Status(Code::kFailedPrecondition, "reads memory that nothing was written to"));
  ToHost(std::move(array), data, size, std::move(done));
}

ArrayShape Bytes(uint64_t size) { return {PJRT_Buffer_Type_U8, {static_cast<int64_t>(size)}}; }

// Blocks until `begin`, which is given what to call then, is done.
Status Synchronously(const std::function<void(std::function<void(Status)>)>& begin) {
  std::latch ended(1);
  Status status;
  begin([&](Status each) {
    status = std::move(each);
    ended.count_down();
  });
  ended.wait();
  return status;
}

// The leaves of a literal, in the order of its buffers.
void AppendLeaves(const xla::Shape& shape, std::vector<xla::Shape>* leaves) {
  if (!shape.IsTuple()) return leaves->push_back(shape);
  for (const auto& element : shape.tuple_shapes()) AppendLeaves(element, leaves);
}

// The memory of a shaped buffer's arrays, without its tuples' tables.
void AppendArrays(const xla::Shape& shape, const SE_DeviceMemoryBase*& next,
                  std::vector<DeviceMemory*>* arrays) {
  auto* memory = MemoryOf(*next++);
  if (!shape.IsTuple()) return arrays->push_back(memory);
  for (const auto& element : shape.tuple_shapes()) AppendArrays(element, next, arrays);
}

std::vector<DeviceMemory*> ArraysOf(const XLA_ShapedBuffer& buffer) {
  std::vector<DeviceMemory*> arrays;
  const SE_DeviceMemoryBase* next = buffer.bases;
  AppendArrays(FromC(buffer.on_device_shape), next, &arrays);
  return arrays;
}

Status LiteralToDevice(SE_Stream& stream, const XLA_Literal& literal,
                       const XLA_ShapedBuffer& buffer) {
  std::vector<xla::Shape> leaves;
  AppendLeaves(FromC(literal.shape), &leaves);
  const auto arrays = ArraysOf(buffer);
  if (leaves.size() != arrays.size() || leaves.size() != literal.count)
    return Internal("a literal of {} arrays for a buffer of {}", leaves.size(), arrays.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    TORUS_ASSIGN_OR_RETURN(const auto shape, ToArrayShape(leaves[i]));
    TORUS_RETURN_IF_ERROR(
        CopyToDevice(stream.ordinal, arrays[i], shape, literal.buffers[i], stream.stream->Begin()));
  }
  return Status();
}

// Of a tuple's arrays, those of dynamic dimensions as they have come out.
Result<xla::Shape> ShapeNow(const XLA_ShapedBuffer& buffer, xla::Shape shape) {
  const auto arrays = ArraysOf(buffer);
  const auto update = [](DeviceMemory* memory, xla::Shape* each) -> Status {
    if (each->is_static() || memory == nullptr || memory->array() == nullptr) return Status();
    TORUS_ASSIGN_OR_RETURN(const auto dimensions, WaitForDimensions(memory->array()));
    *each = xla::ShapeUtil::MakeShapeWithDescendingLayout(each->element_type(), dimensions);
    return Status();
  };
  if (!shape.IsTuple()) {
    TORUS_RETURN_IF_ERROR(update(arrays[0], &shape));
    return shape;
  }
  for (size_t i = 0; i < arrays.size(); ++i)
    TORUS_RETURN_IF_ERROR(update(arrays[i], shape.mutable_tuple_shapes(static_cast<int>(i))));
  return shape;
}

// Counts down what is to come; the last one calls back, with the first error.
class AllOf {
 public:
  AllOf(size_t count, std::function<void(Status)> done) : left_(count), done_(std::move(done)) {}
  void One(Status status) {
    bool last;
    {
      const MutexLock lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
      last = --left_ == 0;
    }
    if (last) done_(status_);
  }

 private:
  Mutex mutex_;
  size_t left_;
  Status status_;
  std::function<void(Status)> done_;
};

void LiteralFromDevice(const XLA_ShapedBuffer& buffer, const XLA_Literal& literal,
                       std::function<void(Status)> done) {
  const auto arrays = ArraysOf(buffer);
  if (arrays.size() != literal.count)
    return done(
        Internal("a buffer of {} arrays for a literal of {}", arrays.size(), literal.count));
  const auto all = std::make_shared<AllOf>(arrays.size() + 1, std::move(done));
  for (size_t i = 0; i < arrays.size(); ++i)
    CopyToHost(arrays[i], literal.buffers[i], literal.sizes[i],
               [all](Status status) { all->One(std::move(status)); });
  all->One(Status());
}

}  // namespace
}  // namespace torus::tensorflow

using torus::tensorflow::MemoryOf;
using torus::tensorflow::Set;
namespace runtime = torus::tensorflow;

// ---- Bytes

TORUS_TFTPU void TpuExecutor_SynchronousMemcpyToHost(SE_StreamExecutor*, void* host,
                                                     const SE_DeviceMemoryBase* device,
                                                     uint64_t size, TF_Status* status) {
  Set(status, runtime::Synchronously([&](auto done) {
        runtime::CopyToHost(MemoryOf(*device), host, size, std::move(done));
      }));
}

TORUS_TFTPU void TpuExecutor_SynchronousMemcpyFromHost(SE_StreamExecutor* executor,
                                                       SE_DeviceMemoryBase* device,
                                                       const void* host, uint64_t size,
                                                       TF_Status* status) {
  Set(status, runtime::Synchronously([&](auto done) {
        runtime::CopyToDevice(executor->ordinal, MemoryOf(*device), runtime::Bytes(size), host,
                              std::move(done))
            .ok();
      }));
}

TORUS_TFTPU void TpuExecutor_MemcpyToHost(SE_StreamExecutor*, SE_Stream* stream, void* host,
                                          const SE_DeviceMemoryBase* device, uint64_t size,
                                          TF_Status*) {
  runtime::CopyToHost(MemoryOf(*device), host, size, stream->stream->Begin());
}

TORUS_TFTPU void TpuExecutor_MemcpyFromHost(SE_StreamExecutor*, SE_Stream* stream,
                                            SE_DeviceMemoryBase* device, const void* host,
                                            uint64_t size, TF_Status* status) {
  Set(status, runtime::CopyToDevice(stream->ordinal, MemoryOf(*device), runtime::Bytes(size), host,
                                    stream->stream->Begin()));
}

TORUS_TFTPU void TpuStream_EnqueueTransferHostToDevice(SE_Stream* stream,
                                                       SE_DeviceMemoryBase device, void* host,
                                                       uint64_t size, TF_Status* status) {
  TpuExecutor_MemcpyFromHost(nullptr, stream, &device, host, size, status);
}

TORUS_TFTPU void TpuStream_EnqueueTransferDeviceToHost(SE_Stream* stream,
                                                       SE_DeviceMemoryBase device, void* host,
                                                       uint64_t size, TF_Status* status) {
  TpuExecutor_MemcpyToHost(nullptr, stream, host, &device, size, status);
}

// From one core's memory to another's, or within one.
TORUS_TFTPU void TpuStream_TpuEnqueueOnDeviceSendRecvLocal(SE_Stream*, SE_DeviceMemoryBase from,
                                                           SE_DeviceMemoryBase to,
                                                           TF_Status* status) {
  auto* const source = MemoryOf(from);
  auto* const target = MemoryOf(to);
  if (source == nullptr || target == nullptr) return;  // of no bytes
  auto array = source->array();
  if (array == nullptr)
    return Set(status, torus::FailedPrecondition("copies memory that nothing was written to"));
  target->Set(runtime::CopyTo(target->device(), source->device(), std::move(array)));
}

// ---- Literals

TORUS_TFTPU XLA_TransferManager* TpuTransferManager_New() {
  return reinterpret_cast<XLA_TransferManager*>(new char);
}
TORUS_TFTPU void TpuTransferManager_Free(XLA_TransferManager* manager) {
  delete reinterpret_cast<char*>(manager);
}

// A value can be read as soon as it is asked for: who waits is the reader (runtime/array.h).
TORUS_TFTPU bool TpuTransferManager_CanShapedBufferBeAccessedNow(XLA_TransferManager*,
                                                                 SE_StreamExecutor*,
                                                                 XLA_ShapedBuffer*) {
  return true;
}
TORUS_TFTPU bool TpuTransferManager_CanBufferBeAccessedNow(XLA_TransferManager*, SE_StreamExecutor*,
                                                           SE_DeviceMemoryBase*) {
  return true;
}

TORUS_TFTPU void TpuTransferManager_TransferLiteralToDeviceAsync(XLA_TransferManager*,
                                                                 SE_Stream* stream,
                                                                 XLA_Literal* literal,
                                                                 XLA_ShapedBuffer* buffer,
                                                                 TF_Status* status) {
  Set(status, runtime::LiteralToDevice(*stream, *literal, *buffer));
}

TORUS_TFTPU void TpuTransferManager_TransferLiteralFromDevice(
    XLA_TransferManager*, SE_Stream* stream, XLA_ShapedBuffer* buffer, XLA_Literal* literal,
    XLA_StatusCallbackFn callback, void* context) {
  runtime::LiteralFromDevice(
      *buffer, *literal,
      [callback, context, ended = stream->stream->Begin()](torus::Status status) {
        runtime::CallBack([callback, context, ended, status] {
          callback(context, new TF_Status{status});  // which it frees
          // Who was told of an error was this reader, not the stream's next.
          ended(torus::Status());
        });
      });
}

TORUS_TFTPU void TpuTransferManager_WriteSingleTupleIndexTable(XLA_TransferManager*, SE_Stream*,
                                                               SE_DeviceMemoryBase* elements,
                                                               size_t count, XLA_Shape*,
                                                               SE_DeviceMemoryBase* region,
                                                               TF_Status*) {
  auto* table = MemoryOf(*region);
  if (table == nullptr) return;  // of no elements
  table->elements.clear();
  for (size_t i = 0; i < count; ++i) table->elements.push_back(MemoryOf(elements[i]));
}

TORUS_TFTPU void TpuTransferManager_ReadDynamicShapes(SE_Stream*, XLA_ShapedBuffer* buffer,
                                                      const XLA_Shape& shape, XLA_Shape* updated,
                                                      TF_Status* status) {
  const auto now = runtime::ShapeNow(*buffer, runtime::FromC(shape));
  if (!now) return Set(status, now.error());
  ApiConverter::ToC(*now, updated);
}

TORUS_TFTPU void TpuTransferManager_ResetDevices(XLA_TransferManager*, SE_StreamExecutor**, int64_t,
                                                 TF_Status*) {}
