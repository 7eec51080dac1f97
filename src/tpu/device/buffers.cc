// Buffers: whether they fit, what they hold, and when they let go.
#include <algorithm>
#include <limits>

#include "base/mutex.h"
#include "tpu/device/state.h"

namespace torus::tpu {
namespace {

using pjrt::Ample;
using pjrt::MakeArgs;
using pjrt::NewError;

// Bytes an element takes. Types of less than a byte take one on the engine; a type that is newer
// than this list counts as one, too, until the engine tells the buffer's true size.
int64_t ElementBytes(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_INVALID:
    case PJRT_Buffer_Type_TOKEN:
      return 0;
    case PJRT_Buffer_Type_S16:
    case PJRT_Buffer_Type_U16:
    case PJRT_Buffer_Type_F16:
    case PJRT_Buffer_Type_BF16:
      return 2;
    case PJRT_Buffer_Type_S32:
    case PJRT_Buffer_Type_U32:
    case PJRT_Buffer_Type_F32:
      return 4;
    case PJRT_Buffer_Type_S64:
    case PJRT_Buffer_Type_U64:
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_C64:
      return 8;
    case PJRT_Buffer_Type_C128:
      return 16;
    default:
      return 1;
  }
}

// A dense array's bytes; the largest number where they are more. A negative dimension is the
// engine's to refuse and counts as none.
int64_t DenseBytes(PJRT_Buffer_Type type, const int64_t* dims, size_t num_dims) {
  int64_t bytes = ElementBytes(type);
  bool too_many = false;
  for (size_t i = 0; i < num_dims; ++i) {
    if (dims[i] <= 0) return 0;
    too_many |= __builtin_mul_overflow(bytes, dims[i], &bytes);
  }
  return too_many ? std::numeric_limits<int64_t>::max() : bytes;
}

// What the engine says a buffer holds, or `estimate`.
int64_t SizeOf(PJRT_Buffer* buffer, int64_t estimate) {
  State& s = state();
  auto args = MakeArgs<PJRT_Buffer_OnDeviceSizeInBytes_Args>();
  args.buffer = buffer;
  const bool known = s.engine.Take(s.engine.Call(pjrt::kBuffer_OnDeviceSizeInBytes, &args)).ok();
  return known ? static_cast<int64_t>(args.on_device_size_in_bytes) : estimate;
}

// A framework may promise that the host's array stays as it is and let the engine use it in place.
// A chip has memory of its own, so programs for TPUs change the array once it is copied: copy it.
PJRT_HostBufferSemantics CopyAlways(PJRT_HostBufferSemantics semantics) {
  switch (semantics) {
    case PJRT_HostBufferSemantics_kImmutableZeroCopy:
    case PJRT_HostBufferSemantics_kMutableZeroCopy:
      return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    default:
      return semantics;
  }
}

PJRT_Error* BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args* args) {
  State& s = state();
  const auto place = FindPlace(args->memory, args->device);
  if (!place) return s.engine.Call(pjrt::kClient_BufferFromHostBuffer, args);
  const int64_t bytes = DenseBytes(args->type, args->dims, args->num_dims);
  if (Status fits = CheckPlace(*place, bytes, "a buffer from the host"); !fits.ok()) {
    return NewError(fits);
  }
  const auto semantics = args->host_buffer_semantics;
  args->host_buffer_semantics = CopyAlways(semantics);
  PJRT_Error* error = s.engine.Call(pjrt::kClient_BufferFromHostBuffer, args);
  args->host_buffer_semantics = semantics;
  if (error != nullptr) return error;
  BookBuffer(args->buffer, *place, SizeOf(args->buffer, bytes), Filled::kWhenReady);
  return nullptr;
}

PJRT_Error* CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args* args) {
  State& s = state();
  const auto place = FindPlace(args->memory, args->device);
  if (!place) return s.engine.Call(pjrt::kClient_CreateUninitializedBuffer, args);
  const int64_t bytes =
      DenseBytes(args->shape_element_type, args->shape_dims, args->shape_num_dims);
  if (Status fits = CheckPlace(*place, bytes, "an uninitialized buffer"); !fits.ok()) {
    return NewError(fits);
  }
  if (PJRT_Error* error = s.engine.Call(pjrt::kClient_CreateUninitializedBuffer, args)) {
    return error;
  }
  BookBuffer(args->buffer, *place, SizeOf(args->buffer, bytes), Filled::kNobodySays);
  return nullptr;
}

// Copies `source` by the function at `slot`, whose arguments have dst_buffer.
template <typename Args>
PJRT_Error* Copy(pjrt::Slot slot, const std::optional<MemorySpace>& place, Args* args) {
  State& s = state();
  if (!place) return s.engine.Call(slot, args);
  const int64_t bytes = SizeOf(args->buffer, 0);
  if (Status fits = CheckPlace(*place, bytes, "a copy of a buffer"); !fits.ok()) {
    return NewError(fits);
  }
  if (PJRT_Error* error = s.engine.Call(slot, args)) return error;
  BookBuffer(args->dst_buffer, *place, bytes, Filled::kWhenReady);
  return nullptr;
}

PJRT_Error* CopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  return Copy(pjrt::kBuffer_CopyToDevice, FindPlace(nullptr, args->dst_device), args);
}

PJRT_Error* CopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  return Copy(pjrt::kBuffer_CopyToMemory, FindPlace(args->dst_memory, nullptr), args);
}

// A deleted buffer is struck before the engine frees it: its address may be another's at once.
PJRT_Error* BufferDelete(PJRT_Buffer_Delete_Args* args) {
  StrikeBuffer(args->buffer);
  return state().engine.Call(pjrt::kBuffer_Delete, args);
}

PJRT_Error* BufferDestroy(PJRT_Buffer_Destroy_Args* args) {
  StrikeBuffer(args->buffer);
  return state().engine.Call(pjrt::kBuffer_Destroy, args);
}

// ---- Buffers filled piece by piece. Their memory is taken when the transfer begins.

PJRT_Error* CreateBuffersForTransfer(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args* args) {
  State& s = state();
  const auto slot = pjrt::kClient_CreateBuffersForAsyncHostToDevice;
  const auto place = FindPlace(args->memory, nullptr);
  if (!place) return s.engine.Call(slot, args);
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (size_t i = 0; i < args->num_shape_specs; ++i) {
    const PJRT_ShapeSpec& shape = args->shape_specs[i];
    const int64_t bytes = DenseBytes(shape.element_type, shape.dims, shape.num_dims);
    sizes.push_back(bytes);
    if (__builtin_add_overflow(total, bytes, &total)) total = std::numeric_limits<int64_t>::max();
  }
  if (Status fits = CheckPlace(*place, total, "buffers for a transfer"); !fits.ok()) {
    return NewError(fits);
  }
  if (PJRT_Error* error = s.engine.Call(slot, args)) return error;
  if (place->hbm != nullptr) {
    for (const int64_t bytes : sizes) place->hbm->Add(bytes, 1, bytes);
  }
  s.transfers.Insert(args->transfer_manager,
                     new Transfer{.place = *place, .unclaimed = std::move(sizes)});
  return nullptr;
}

// From here on the buffer's own entry holds the memory.
PJRT_Error* RetrieveBuffer(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args* args) {
  State& s = state();
  const auto slot = pjrt::kAsyncHostToDeviceTransferManager_RetrieveBuffer;
  if (PJRT_Error* error = s.engine.Call(slot, args)) return error;
  const auto found = s.transfers.Find(args->transfer_manager);
  if (!found) return nullptr;
  Transfer& transfer = **found;
  const MutexLock lock(transfer.mutex);
  const auto index = static_cast<size_t>(args->buffer_index);
  if (index >= transfer.unclaimed.size()) return nullptr;
  const int64_t bytes = std::exchange(transfer.unclaimed[index], 0);
  s.buffers.Insert(args->buffer_out,
                   Buffer{transfer.place.client, transfer.place.hbm, bytes, false});
  return nullptr;
}

PJRT_Error* TransferDestroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* args) {
  State& s = state();
  if (const auto found = s.transfers.Take(args->transfer_manager)) {
    const std::unique_ptr<Transfer> transfer(*found);
    const MutexLock lock(transfer->mutex);
    for (const int64_t bytes : transfer->unclaimed) {
      if (transfer->place.hbm != nullptr) transfer->place.hbm->Remove(bytes);
    }
  }
  return s.engine.Call(pjrt::kAsyncHostToDeviceTransferManager_Destroy, args);
}

// What happens when a buffer with promised pages is ready.
struct Settlement {
  std::shared_ptr<HostMemory> host;
  int64_t bytes;
  PJRT_Event* event;
};

void Settle(PJRT_Error* error, void* argument) {
  State& s = state();
  const std::unique_ptr<Settlement> settlement(static_cast<Settlement*>(argument));
  s.engine.Take(error).ok();  // The owner of the buffer hears of it, too.
  settlement->host->Settle(settlement->bytes);
  auto destroy = MakeArgs<PJRT_Event_Destroy_Args>();
  destroy.event = settlement->event;
  s.engine.Take(s.engine.Call(pjrt::kEvent_Destroy, &destroy)).ok();
}

}  // namespace

std::optional<MemorySpace> FindPlace(const PJRT_Memory* memory, const PJRT_Device* device) {
  State& s = state();
  if (memory != nullptr) return s.memories.Find(memory);
  if (device == nullptr) return std::nullopt;
  const auto found = s.devices.Find(device);
  if (!found) return std::nullopt;
  return MemorySpace{(*found)->client, &(*found)->hbm};
}

Status CheckPlace(const MemorySpace& place, int64_t bytes, const char* what) {
  if (place.hbm != nullptr && !place.hbm->Fits(bytes)) return place.hbm->CheckBuffer(bytes);
  return place.client->host->Check(bytes, what);
}

void BookBuffer(PJRT_Buffer* buffer, const MemorySpace& place, int64_t bytes, Filled filled) {
  const bool large = bytes >= HostMemory::kLookEvery;
  const bool promised = large && filled == Filled::kNobodySays;
  if (place.hbm != nullptr) place.hbm->Add(bytes, 1, bytes);
  if (promised) place.client->host->Promise(bytes);
  if (large && !promised) PromiseUntilReady(buffer, place.client->host, bytes);
  if (place.hbm == nullptr && !promised) return;  // nothing to strike later
  state().buffers.Insert(buffer, Buffer{place.client, place.hbm, bytes, promised});
}

void StrikeBuffer(const PJRT_Buffer* buffer) {
  const auto entry = state().buffers.Take(buffer);
  if (!entry) return;
  if (entry->hbm != nullptr) entry->hbm->Remove(entry->bytes);
  if (entry->promised) entry->client->host->Settle(entry->bytes);
}

void PromiseUntilReady(PJRT_Buffer* buffer, const std::shared_ptr<HostMemory>& host,
                       int64_t bytes) {
  State& s = state();
  auto ready = MakeArgs<PJRT_Buffer_ReadyEvent_Args>();
  ready.buffer = buffer;
  if (!s.engine.Take(s.engine.Call(pjrt::kBuffer_ReadyEvent, &ready)).ok()) return;
  host->Promise(bytes);
  auto* settlement = new Settlement{host, bytes, ready.event};
  auto on_ready = MakeArgs<PJRT_Event_OnReady_Args>();
  on_ready.event = ready.event;
  on_ready.callback = Settle;
  on_ready.user_arg = settlement;
  if (PJRT_Error* error = s.engine.Call(pjrt::kEvent_OnReady, &on_ready)) Settle(error, settlement);
}

void ForgetBuffers(const Client* client) {
  state().buffers.EraseIf([client](const Buffer& buffer) { return buffer.client == client; });
  state().transfers.EraseIf([client](Transfer* transfer) {
    if (transfer->place.client != client) return false;
    delete transfer;
    return true;
  });
}

void OverrideBufferFunctions(pjrt::Table& table) {
  Override(table, pjrt::kClient_BufferFromHostBuffer, BufferFromHostBuffer);
  Override(table, pjrt::kClient_CreateUninitializedBuffer, CreateUninitializedBuffer);
  Override(table, pjrt::kBuffer_CopyToDevice, CopyToDevice);
  Override(table, pjrt::kBuffer_CopyToMemory, CopyToMemory);
  Override(table, pjrt::kBuffer_Delete, BufferDelete);
  Override(table, pjrt::kBuffer_Destroy, BufferDestroy);
  Override(table, pjrt::kClient_CreateBuffersForAsyncHostToDevice, CreateBuffersForTransfer);
  Override(table, pjrt::kAsyncHostToDeviceTransferManager_RetrieveBuffer, RetrieveBuffer);
  Override(table, pjrt::kAsyncHostToDeviceTransferManager_Destroy, TransferDestroy);
}

}  // namespace torus::tpu
