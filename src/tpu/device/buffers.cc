// Buffers: whether they fit, what they hold, and when they let go.
#include <algorithm>
#include <limits>
#include <span>

#include "base/mutex.h"
#include "tpu/device/state.h"

namespace torus::tpu {
namespace {

using pjrt::Ample;
using pjrt::MakeArgs;
using pjrt::NewError;

// What the engine says a buffer holds, or `estimate`.
int64_t HostBytesOf(PJRT_Buffer* buffer, int64_t estimate) {
  State& s = state();
  auto args = MakeArgs<PJRT_Buffer_OnDeviceSizeInBytes_Args>();
  args.buffer = buffer;
  const bool known = s.engine.Take(s.engine.Call(pjrt::kBuffer_OnDeviceSizeInBytes, &args)).ok();
  return known ? static_cast<int64_t>(args.on_device_size_in_bytes) : estimate;
}

BufferSize SizeOfShape(const MemorySpace& place, PJRT_Buffer_Type type, const int64_t* dims,
                       size_t num_dims) {
  const std::span shape(dims, num_dims);
  const int bits = BitsOf(type);
  return {.host = DenseBytes(bits, shape), .hbm = place.client->tiling.Bytes(bits, shape)};
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
  const auto size = SizeOfShape(*place, args->type, args->dims, args->num_dims);
  if (Status fits = CheckPlace(*place, size, "a buffer from the host"); !fits.ok()) {
    return NewError(fits);
  }
  const auto semantics = args->host_buffer_semantics;
  args->host_buffer_semantics = CopyAlways(semantics);
  PJRT_Error* error = s.engine.Call(pjrt::kClient_BufferFromHostBuffer, args);
  args->host_buffer_semantics = semantics;
  if (error != nullptr) return error;
  BookBuffer(args->buffer, *place, size, Filled::kWhenReady);
  return nullptr;
}

PJRT_Error* CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args* args) {
  State& s = state();
  const auto place = FindPlace(args->memory, args->device);
  if (!place) return s.engine.Call(pjrt::kClient_CreateUninitializedBuffer, args);
  const auto size =
      SizeOfShape(*place, args->shape_element_type, args->shape_dims, args->shape_num_dims);
  if (Status fits = CheckPlace(*place, size, "an uninitialized buffer"); !fits.ok()) {
    return NewError(fits);
  }
  if (PJRT_Error* error = s.engine.Call(pjrt::kClient_CreateUninitializedBuffer, args)) {
    return error;
  }
  BookBuffer(args->buffer, *place, size, Filled::kNobodySays);
  return nullptr;
}

// Copies `source` by the function at `slot`, whose arguments have dst_buffer.
template <typename Args>
PJRT_Error* Copy(pjrt::Slot slot, const std::optional<MemorySpace>& place, Args* args) {
  State& s = state();
  if (!place) return s.engine.Call(slot, args);
  const auto size = SizeOfBuffer(*place, args->buffer);
  if (Status fits = CheckPlace(*place, size, "a copy of a buffer"); !fits.ok()) {
    return NewError(fits);
  }
  if (PJRT_Error* error = s.engine.Call(slot, args)) return error;
  BookBuffer(args->dst_buffer, *place, size, Filled::kWhenReady);
  return nullptr;
}

PJRT_Error* CopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  return Copy(pjrt::kBuffer_CopyToDevice, FindPlace(nullptr, args->dst_device), args);
}

PJRT_Error* CopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  return Copy(pjrt::kBuffer_CopyToMemory, FindPlace(args->dst_memory, nullptr), args);
}

PJRT_Error* OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  State& s = state();
  const auto entry = s.buffers.Find(args->buffer);
  if (!entry || entry->hbm == nullptr) {
    return s.engine.Call(pjrt::kBuffer_OnDeviceSizeInBytes, args);
  }
  args->on_device_size_in_bytes = static_cast<size_t>(entry->bytes);
  return nullptr;
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
  std::vector<BufferSize> sizes;
  BufferSize total;
  const auto add = [](int64_t& sum, int64_t bytes) {
    if (__builtin_add_overflow(sum, bytes, &sum)) sum = std::numeric_limits<int64_t>::max();
  };
  for (size_t i = 0; i < args->num_shape_specs; ++i) {
    const PJRT_ShapeSpec& shape = args->shape_specs[i];
    sizes.push_back(SizeOfShape(*place, shape.element_type, shape.dims, shape.num_dims));
    add(total.host, sizes.back().host);
    add(total.hbm, sizes.back().hbm);
  }
  if (Status fits = CheckPlace(*place, total, "buffers for a transfer"); !fits.ok()) {
    return NewError(fits);
  }
  if (PJRT_Error* error = s.engine.Call(slot, args)) return error;
  if (place->hbm != nullptr) {
    for (const auto& size : sizes) place->hbm->Add(size.hbm, 1, size.hbm);
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
  const auto size = std::exchange(transfer.unclaimed[index], {});
  s.buffers.Insert(args->buffer_out,
                   Buffer{transfer.place.client, transfer.place.hbm, size.hbm, 0});
  return nullptr;
}

PJRT_Error* TransferDestroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* args) {
  State& s = state();
  if (const auto found = s.transfers.Take(args->transfer_manager)) {
    const std::unique_ptr<Transfer> transfer(*found);
    const MutexLock lock(transfer->mutex);
    for (const auto& size : transfer->unclaimed) {
      if (transfer->place.hbm != nullptr) transfer->place.hbm->Remove(size.hbm);
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

BufferSize SizeOfBuffer(const MemorySpace& place, PJRT_Buffer* buffer) {
  State& s = state();
  auto type = MakeArgs<PJRT_Buffer_ElementType_Args>();
  auto dims = MakeArgs<PJRT_Buffer_Dimensions_Args>();
  type.buffer = dims.buffer = buffer;
  if (s.engine.Take(s.engine.Call(pjrt::kBuffer_ElementType, &type)).ok() &&
      s.engine.Take(s.engine.Call(pjrt::kBuffer_Dimensions, &dims)).ok()) {
    return SizeOfShape(place, type.type, dims.dims, dims.num_dims);
  }
  const int64_t bytes = HostBytesOf(buffer, 0);
  return {.host = bytes, .hbm = bytes};
}

Status CheckPlace(const MemorySpace& place, const BufferSize& size, const char* what) {
  if (place.hbm != nullptr && !place.hbm->Fits(size.hbm)) return place.hbm->CheckBuffer(size.hbm);
  return place.client->host->Check(size.host, what);
}

void BookBuffer(PJRT_Buffer* buffer, const MemorySpace& place, const BufferSize& size,
                Filled filled) {
  const bool large = size.host >= HostMemory::kLookEvery;
  const int64_t promised = large && filled == Filled::kNobodySays ? size.host : 0;
  if (place.hbm != nullptr) place.hbm->Add(size.hbm, 1, size.hbm);
  if (promised > 0) place.client->host->Promise(promised);
  if (large && promised == 0) PromiseUntilReady(buffer, place.client->host, size.host);
  if (place.hbm == nullptr && promised == 0) return;  // nothing to strike later
  state().buffers.Insert(buffer, Buffer{place.client, place.hbm, size.hbm, promised});
}

void StrikeBuffer(const PJRT_Buffer* buffer) {
  const auto entry = state().buffers.Take(buffer);
  if (!entry) return;
  if (entry->hbm != nullptr) entry->hbm->Remove(entry->bytes);
  if (entry->promised > 0) entry->client->host->Settle(entry->promised);
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
  Override(table, pjrt::kBuffer_OnDeviceSizeInBytes, OnDeviceSizeInBytes);
  Override(table, pjrt::kBuffer_Delete, BufferDelete);
  Override(table, pjrt::kBuffer_Destroy, BufferDestroy);
  Override(table, pjrt::kClient_CreateBuffersForAsyncHostToDevice, CreateBuffersForTransfer);
  Override(table, pjrt::kAsyncHostToDeviceTransferManager_RetrieveBuffer, RetrieveBuffer);
  Override(table, pjrt::kAsyncHostToDeviceTransferManager_Destroy, TransferDestroy);
}

}  // namespace torus::tpu
