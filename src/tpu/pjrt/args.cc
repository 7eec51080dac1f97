// Names of the functions, the sizes of their structs, and named values.
#include "tpu/pjrt/args.h"

#include <iterator>

namespace torus::pjrt {
namespace {

PJRT_NamedValue Named(std::string_view name, PJRT_NamedValue_Type type, size_t size) {
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = name.data();
  value.name_size = name.size();
  value.type = type;
  value.value_size = size;
  return value;
}

}  // namespace

const char* FunctionName(size_t slot) {
  static constexpr const char* kNames[] = {
#define X(name) "PJRT_" #name,
#include "tpu/pjrt/header_functions.inc"
#include "tpu/pjrt/later_functions.inc"
#undef X
  };
  static_assert(std::size(kNames) == kSlots);
  return slot < kSlots ? kNames[slot] : "an unknown PJRT function";
}

size_t LeastSize(size_t slot) {
  switch (slot) {
    case kPlugin_Attributes:  // all of it output; 0.70's size leaves out the last field
      return offsetof(PJRT_Plugin_Attributes_Args, num_attributes);
    // Whose last field is an input that cannot be null.
    case kEvent_OnReady:
      return sizeof(PJRT_Event_OnReady_Args);
    case kClient_DefaultDeviceAssignment:
      return sizeof(PJRT_Client_DefaultDeviceAssignment_Args);
    case kClient_DmaUnmap:
      return sizeof(PJRT_Client_DmaUnmap_Args);
    case kClient_FulfillAliasBuffer:
      return sizeof(PJRT_Client_FulfillAliasBuffer_Args);
    // Structs that grew since 0.57, when PJRT last changed one otherwise.
    case kClient_Create:
      return offsetof(PJRT_Client_Create_Args, kv_try_get_callback);  // 0.61
    case kClient_CreateViewOfDeviceBuffer:
      return offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, memory);  // 0.66
    case kExecutable_DeserializeAndLoad:
      return offsetof(PJRT_Executable_DeserializeAndLoad_Args,
                      overridden_serialized_compile_options);  // 0.71
    case kExecutable_GetCompiledMemoryStats:
      return offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, peak_memory_in_bytes);  // 0.72
    case kDevice_GetAttributes:
      return sizeof(DeviceGetAttributesArgs);
    case kDevice_ClearMemoryStats:
      return sizeof(DeviceClearMemoryStatsArgs);
    case kEvent_Create:
      return sizeof(EventCreateArgs);
    case kEvent_Set:
      return sizeof(EventSetArgs);
    case kError_ForEachPayload:
      return sizeof(ErrorForEachPayloadArgs);
    default:
      break;
  }
  // PJRT's sizes end with the last field, C++'s with the padding behind it; and PJRT's header has
  // more than once named the last field but one. The object that a function is about comes third.
  static constexpr size_t kObject = 3 * sizeof(void*);
  static constexpr size_t kSizes[] = {
#define X(name) \
  std::min(sizeof(PJRT_##name##_Args), std::max(kObject, sizeof(PJRT_##name##_Args) - 15)),
#include "tpu/pjrt/header_functions.inc"
#undef X
  };
  return slot < std::size(kSizes) ? kSizes[slot] : sizeof(size_t);
}

PJRT_NamedValue NamedInt(std::string_view name, int64_t value) {
  PJRT_NamedValue named = Named(name, PJRT_NamedValue_kInt64, 1);
  named.int64_value = value;
  return named;
}

PJRT_NamedValue NamedInts(std::string_view name, const int64_t* values, size_t count) {
  PJRT_NamedValue named = Named(name, PJRT_NamedValue_kInt64List, count);
  named.int64_array_value = values;
  return named;
}

PJRT_NamedValue NamedString(std::string_view name, std::string_view value) {
  PJRT_NamedValue named = Named(name, PJRT_NamedValue_kString, value.size());
  named.string_value = value.data();
  return named;
}

}  // namespace torus::pjrt
