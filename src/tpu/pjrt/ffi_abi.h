// The structs behind ffi.h: XLA's table of FFI functions, and the PJRT extension by which handlers
// are registered. As in ffi.h, they are upstream's as far as Torus reads them. For ffi.cc and for
// the fake engine of tests.
#ifndef TORUS_TPU_PJRT_FFI_ABI_H_
#define TORUS_TPU_PJRT_FFI_ABI_H_

#include "tpu/pjrt/ffi.h"

namespace torus::pjrt::ffi {

// ---- XLA's FFI table, as far as Torus calls it

struct ApiVersion {
  size_t struct_size;
  void* extension_start;
  int major_version, minor_version;
};

struct CreateErrorArgs {
  size_t struct_size;
  void* extension_start;
  const char* message;
  int code;
};

struct DestroyErrorArgs {
  size_t struct_size;
  void* extension_start;
  Error* error;
};

struct TypeId {
  int64_t type_id;
};

struct GetContextArgs {
  size_t struct_size;
  void* extension_start;
  ExecutionContext* context;
  const TypeId* type_id;
  void* data;  // out
};

struct DeviceOrdinalArgs {
  size_t struct_size;
  void* extension_start;
  ExecutionContext* context;
  int32_t device_ordinal;  // out
};

struct CreateFutureArgs {
  size_t struct_size;
  void* extension_start;
  Future* future;  // out
};

struct SetAvailableArgs {
  size_t struct_size;
  void* extension_start;
  Future* future;
};

struct SetErrorArgs {
  size_t struct_size;
  void* extension_start;
  Future* future;
  Error* error;  // taken over
};

using AnyFunction = void (*)();

// A handler asked for its metadata finds this at its call frame's extension_start.
struct MetadataExtension {
  size_t struct_size;
  int32_t type;
  void* next;
  struct Metadata {
    size_t struct_size;
    ApiVersion api_version;
  } * metadata;
};
inline constexpr int32_t kMetadataExtension = 1;

struct Api {
  size_t struct_size;
  void* extension_start;
  ApiVersion api_version;
  const void* internal_api;
  Error* (*create_error)(CreateErrorArgs*);
  AnyFunction error_message;
  void (*destroy_error)(DestroyErrorArgs*);
  AnyFunction register_handler, stream, register_type;
  Error* (*get_context)(GetContextArgs*);
  AnyFunction set_state, get_state, allocate, free, schedule, num_threads;
  Error* (*create_future)(CreateFutureArgs*);
  Error* (*set_available)(SetAvailableArgs*);
  Error* (*set_error)(SetErrorArgs*);
  AnyFunction run_id;
  Error* (*device_ordinal)(DeviceOrdinalArgs*);
};

// ---- The engine's PJRT extension

inline constexpr int kFfiExtensionType = 5;  // PJRT_Extension_Type_FFI
// Older extensions have other structs in the same sizes. This one has them as below.
inline constexpr int kOldestMinor = 97;

struct RegisterTypeArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* type_name;
  size_t type_name_size;
  int64_t type_id;        // in: 0, "choose one"; out
  const void* type_info;  // of version 3: functions to copy and free data, all null here
};

struct AddUserDataArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;
  int64_t type_id;
  void* data;
  void (*deleter)(void*);  // gone in version 3
};

struct RegisterHandlerArgs {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  int traits;
};

struct Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*register_type)(RegisterTypeArgs*);
  PJRT_Error* (*add_user_data)(AddUserDataArgs*);
  PJRT_Error* (*register_handler)(RegisterHandlerArgs*);
};

}  // namespace torus::pjrt::ffi

#endif  // TORUS_TPU_PJRT_FFI_ABI_H_
