// The platform and its cores: their memory, streams and events.
#include <cstring>

#include "tpu/pjrt/args.h"
#include "tpu/tensorflow/adapter/handles.h"
#include "tpu/tensorflow/runtime/tpu.h"

namespace torus::tensorflow {
namespace {

char platform_id;  // whose address is the id

Result<PJRT_Device_MemoryStats_Args> MemoryStats(int ordinal) {
  TORUS_ASSIGN_OR_RETURN(const auto tpu, Tpu::Get());
  auto args = pjrt::MakeArgs<PJRT_Device_MemoryStats_Args>();
  TORUS_ASSIGN_OR_RETURN(args.device, tpu->device(ordinal));
  TORUS_RETURN_IF_ERROR(tpu->Take(Tpu::api()->PJRT_Device_MemoryStats(&args)));
  return args;
}

}  // namespace
}  // namespace torus::tensorflow

using torus::tensorflow::MemoryOf;
using torus::tensorflow::MemoryStats;
using torus::tensorflow::NewText;
using torus::tensorflow::Set;
using torus::tensorflow::TheTopology;

// ---- The platform

TORUS_TFTPU SE_Platform* TpuPlatform_New() { return new SE_Platform; }
TORUS_TFTPU void TpuPlatform_Free(SE_Platform* platform) { delete platform; }
#if TORUS_TENSORFLOW_MINOR < 18
TORUS_TFTPU void TpuPlatform_Initialize(SE_Platform*, size_t, const char**, const char**,
                                        TF_Status*) {}

// Until then an executor was asked for by one of these, which has its core's number.
struct SE_StreamExecutorConfig {
  int ordinal = 0;
};
TORUS_TFTPU SE_StreamExecutorConfig* TpuStreamExecutorConfig_Default() {
  return new SE_StreamExecutorConfig;
}
TORUS_TFTPU void TpuStreamExecutorConfig_SetOrdinal(SE_StreamExecutorConfig* config, int ordinal) {
  config->ordinal = ordinal;
}
TORUS_TFTPU void TpuStreamExecutorConfig_Free(SE_StreamExecutorConfig* config) { delete config; }
TORUS_TFTPU SE_StreamExecutor* TpuPlatform_GetExecutor(SE_Platform*,
                                                       SE_StreamExecutorConfig* config,
                                                       TF_Status*) {
  return new SE_StreamExecutor{config->ordinal};
}
#else
TORUS_TFTPU void TpuPlatform_Initialize(SE_Platform*, TF_Status*) {}
TORUS_TFTPU SE_StreamExecutor* TpuPlatform_GetExecutor(SE_Platform*, int ordinal, TF_Status*) {
  return new SE_StreamExecutor{ordinal};
}
#endif
TORUS_TFTPU bool TpuPlatform_Initialized(SE_Platform*) { return true; }

TORUS_TFTPU SE_PlatformId TpuPlatform_Id(SE_Platform*) { return {&torus::tensorflow::platform_id}; }

TORUS_TFTPU SE_PlatformId TpuTransferManager_PlatformId(XLA_TransferManager*) {
  return {&torus::tensorflow::platform_id};
}

TORUS_TFTPU int64_t TpuPlatform_VisibleDeviceCount(SE_Platform*) {
  return static_cast<int64_t>(TheTopology()->cores.size());
}

TORUS_TFTPU bool TpuPlatform_ShouldRegisterTpuDeviceToDeviceCopy(SE_Platform*) { return true; }

TORUS_TFTPU TpuRuntimeVersion TpuPlatform_GetRuntimeVersion(SE_Platform*) {
  static constexpr char kMetadata[] = "torus";
  return {.version = {}, .metadata = kMetadata, .metadata_size = sizeof kMetadata - 1};
}

// ---- A core

TORUS_TFTPU void TpuExecutor_Init(SE_StreamExecutor*, TF_Status*) {}
TORUS_TFTPU void TpuExecutor_Free(SE_StreamExecutor* executor) { delete executor; }

TORUS_TFTPU SE_DeviceDescription* TpuDeviceDescription_New() { return new SE_DeviceDescription{}; }
TORUS_TFTPU void TpuDeviceDescription_Free(SE_DeviceDescription* description) {
  for (char* text :
       {description->device_vendor, description->platform_version, description->driver_version,
        description->runtime_version, description->pci_bus_id, description->name})
    delete[] text;
  delete description;
}

TORUS_TFTPU void TpuExecutor_CreateDeviceDescription(SE_StreamExecutor*,
                                                     SE_DeviceDescription* description,
                                                     TF_Status*) {
  description->device_vendor = NewText("Torus");
  description->platform_version = NewText("");
  description->driver_version = NewText("");
  description->runtime_version = NewText("");
  description->pci_bus_id = NewText("");
  description->name = NewText(TheTopology()->kind);
  description->device_address_bits = 64;
  description->core_count = 1;
}

TORUS_TFTPU SE_TpuTopology_Core* TpuExecutor_GetCoreLocation(SE_StreamExecutor* executor) {
  return TpuTopology_CoreForId(TheTopology(), kTensorCore, executor->ordinal);
}

// ---- Memory

TORUS_TFTPU SE_DeviceMemoryBase TpuExecutor_Allocate(SE_StreamExecutor* executor, uint64_t size,
                                                     int64_t) {
  return {.opaque = new torus::tensorflow::DeviceMemory(executor->ordinal, size),
          .size = size,
          .payload = 0};
}

TORUS_TFTPU void TpuExecutor_Deallocate(SE_StreamExecutor*, SE_DeviceMemoryBase* memory) {
  delete MemoryOf(*memory);
  memory->opaque = nullptr;
}

TORUS_TFTPU bool TpuExecutor_GetAllocatorStats(SE_StreamExecutor* executor,
                                               SE_AllocatorStats* stats) {
  const auto memory = MemoryStats(executor->ordinal);
  if (!memory) return false;
  *stats = {};
  stats->num_allocs = memory->num_allocs;
  stats->bytes_in_use = memory->bytes_in_use;
  stats->peak_bytes_in_use = memory->peak_bytes_in_use;
  stats->largest_alloc_size = memory->largest_alloc_size;
  stats->has_bytes_limit = memory->bytes_limit_is_set;
  stats->bytes_limit = memory->bytes_limit;
  stats->largest_free_block_bytes = memory->largest_free_block_bytes;
  return true;
}

TORUS_TFTPU bool TpuExecutor_DeviceMemoryUsage(SE_StreamExecutor* executor, int64_t* free,
                                               int64_t* total) {
  const auto memory = MemoryStats(executor->ordinal);
  if (!memory) return false;
  *total = memory->bytes_limit;
  *free = memory->bytes_limit - memory->bytes_in_use;
  return true;
}

// ---- Streams and events

TORUS_TFTPU SE_Stream* TpuStream_New(SE_StreamExecutor* executor) {
  return new SE_Stream{executor->ordinal, torus::tensorflow::Stream::Make()};
}
TORUS_TFTPU void TpuStream_Free(SE_Stream* stream) { delete stream; }
TORUS_TFTPU void* TpuStream_Stream(SE_Stream* stream) { return stream; }
TORUS_TFTPU bool TpuStream_Status(SE_Stream* stream) { return stream->stream->status().ok(); }
TORUS_TFTPU bool TpuStream_IsSameSharedMemoryLocation(SE_Stream* a, SE_Stream* b) {
  return a->ordinal == b->ordinal;
}

TORUS_TFTPU bool TpuExecutor_AllocateStream(SE_StreamExecutor*, SE_Stream*) { return true; }
TORUS_TFTPU void TpuExecutor_DeallocateStream(SE_StreamExecutor*, SE_Stream*) {}

TORUS_TFTPU bool TpuExecutor_CreateStreamDependency(SE_StreamExecutor*, SE_Stream* dependent,
                                                    SE_Stream* other) {
  dependent->stream->Await(other->stream->Mark());
  return true;
}

TORUS_TFTPU void TpuExecutor_GetStatus(SE_StreamExecutor*, SE_Stream* stream, TF_Status* status) {
  Set(status, stream->stream->status());
}

TORUS_TFTPU void TpuExecutor_BlockHostUntilDone(SE_StreamExecutor*, SE_Stream* stream,
                                                TF_Status* status) {
  Set(status, stream->stream->Wait());
}

// A stream's callers wait for their streams; no work is on none.
TORUS_TFTPU bool TpuExecutor_SynchronizeAllActivity(SE_StreamExecutor*) { return true; }
TORUS_TFTPU void TpuExecutor_UnloadAllPrograms(SE_StreamExecutor*, TF_Status*) {}
TORUS_TFTPU void TpuExecutor_EnqueueCompactionOnStreamForHbm(SE_StreamExecutor*, SE_Stream*,
                                                             TF_Status*) {}

TORUS_TFTPU bool TpuExecutor_HostCallback(SE_StreamExecutor*, SE_Stream* stream,
                                          SE_StatusCallback callback, void* context) {
  stream->stream->Then([callback, context] {
    const std::unique_ptr<TF_Status> status(callback(context));
    return status == nullptr ? torus::Status() : status->status;
  });
  return true;
}

TORUS_TFTPU SE_Event* TpuEvent_New(SE_StreamExecutor*) { return new SE_Event; }
TORUS_TFTPU void TpuEvent_Free(SE_Event* event) { delete event; }
TORUS_TFTPU void TpuExecutor_AllocateEvent(SE_StreamExecutor*, SE_Event*, TF_Status*) {}

TORUS_TFTPU void TpuExecutor_RecordEvent(SE_StreamExecutor*, SE_Stream* stream, SE_Event* event,
                                         TF_Status*) {
  event->recorded = stream->stream->Mark();
}

TORUS_TFTPU void TpuExecutor_WaitForEvent(SE_StreamExecutor*, SE_Stream* stream, SE_Event* event,
                                          TF_Status*) {
  if (event->recorded != nullptr) stream->stream->Await(event->recorded);
}
