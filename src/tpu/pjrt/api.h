// The PJRT C API as Torus sees it: the fetched header (0.81), and the functions that later versions
// append to its table, up to 0.115, which is the pinned engine's.
//
// PJRT lets a table and an argument struct only grow, and each begins with its own size, so a newer
// function is reached by its place. What is listed here is that order, checked against the header
// at compile time. Everything below is constant.
#ifndef TORUS_TPU_PJRT_API_H_
#define TORUS_TPU_PJRT_API_H_

#include <cstddef>
#include <cstdint>

#include "pjrt_c_api.h"

namespace torus::pjrt {

// The newest version that a Table covers.
inline constexpr int kNewestMinor = 115;
// The oldest engine that has every function of the header.
inline constexpr int kOldestEngineMinor = PJRT_API_MINOR;

// A function's place in the table, from 0: kError_Destroy, kError_Message, ...
enum Slot : size_t {
#define X(name) k##name,
#include "tpu/pjrt/header_functions.inc"
  kHeaderSlots,
  kLastHeaderSlot = kHeaderSlots - 1,  // so that the next name has the number kHeaderSlots
#include "tpu/pjrt/later_functions.inc"
  kSlots
#undef X
};

// "PJRT_Client_Create" for kClient_Create.
const char* FunctionName(size_t slot);

// Every function takes a pointer to a struct that begins with its size, and all but
// PJRT_Error_Destroy and PJRT_Error_Message return an error or null.
using Function = PJRT_Error* (*)(void* args);

// A whole table: what GetPjrtApi answers with.
struct Table {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Api_Version version;
  Function functions[kSlots];

  const PJRT_Api* api() const { return reinterpret_cast<const PJRT_Api*>(this); }
};

inline constexpr size_t kFirstFunction = offsetof(Table, functions);
#define X(name) \
  static_assert(offsetof(PJRT_Api, PJRT_##name) == kFirstFunction + k##name * sizeof(Function));
#include "tpu/pjrt/header_functions.inc"
#undef X
static_assert(PJRT_Api_STRUCT_SIZE == kFirstFunction + kHeaderSlots * sizeof(Function));
static_assert(sizeof(Table) == 1144, "the size that a 0.115 table has");
// Seen in jaxlib 0.10.2, which looks for the function here.
static_assert(kFirstFunction + kDevice_GetAttributes * sizeof(Function) == 1064);

// Arguments of later functions that Torus implements.

struct DeviceAttributes;  // opaque: what `deleter` frees

struct DeviceGetAttributesArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;
  const PJRT_NamedValue* attributes;    // out; lives as long as device_attributes
  size_t num_attributes;                // out
  DeviceAttributes* device_attributes;  // out
  void (*deleter)(DeviceAttributes*);   // out
};

struct DeviceClearMemoryStatsArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Device* device;
};

struct EventCreateArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;  // out
};

struct EventSetArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Event* event;
  PJRT_Error_Code error_code;  // 0: no error
  const char* error_message;
  size_t error_message_size;
};

struct ErrorForEachPayloadArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const PJRT_Error* error;
  // A visitor and its argument follow; Torus's own errors have no payload to visit.
};

}  // namespace torus::pjrt

#endif  // TORUS_TPU_PJRT_API_H_
