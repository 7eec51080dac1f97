// The PJRT extension of a profiler, as OpenXLA has it (pjrt_c_api_profiler_extension.h, version 1,
// and profiler_c_api.h): a framework's profiler starts and stops a plugin's, and collects what it
// recorded as a serialized XSpace. Everything below is constant.
#ifndef TORUS_TPU_PJRT_PROFILER_H_
#define TORUS_TPU_PJRT_PROFILER_H_

#include <cstddef>
#include <cstdint>

#include "tpu/pjrt/extensions.h"

namespace torus::pjrt {

struct ProfilerError;  // opaque: the plugin's
struct Profiler;       // opaque: the plugin's

struct ProfilerErrorDestroyArgs {
  size_t struct_size;
  void* priv;
  ProfilerError* error;
};

struct ProfilerErrorMessageArgs {
  size_t struct_size;
  void* priv;
  const ProfilerError* error;
  const char* message;  // out; lives as long as the error
  size_t message_size;  // out
};

struct ProfilerErrorGetCodeArgs {
  size_t struct_size;
  void* priv;
  const ProfilerError* error;
  int code;  // out
};

struct ProfilerCreateArgs {
  size_t struct_size;
  const char* options;  // a serialized tensorflow.ProfileOptions
  size_t options_size;
  Profiler* profiler;  // out
};

// Of destroy, start and stop.
struct ProfilerArgs {
  size_t struct_size;
  Profiler* profiler;
};

// Called without a buffer, and then, if the caller wants its own, with one of the size that it was
// told.
struct ProfilerCollectDataArgs {
  size_t struct_size;
  Profiler* profiler;
  uint8_t* buffer;     // in: where to copy the data to; out, if null: the profiler's own data
  size_t buffer_size;  // out
};

struct ProfilerApi {
  size_t struct_size;
  void* priv;
  void (*error_destroy)(ProfilerErrorDestroyArgs*);
  void (*error_message)(ProfilerErrorMessageArgs*);
  ProfilerError* (*error_get_code)(ProfilerErrorGetCodeArgs*);
  ProfilerError* (*create)(ProfilerCreateArgs*);
  ProfilerError* (*destroy)(ProfilerArgs*);
  ProfilerError* (*start)(ProfilerArgs*);
  ProfilerError* (*stop)(ProfilerArgs*);
  ProfilerError* (*collect_data)(ProfilerCollectDataArgs*);
};

struct ProfilerExtension {
  PJRT_Extension_Base base;
  const ProfilerApi* profiler_api;  // of a plugin's table; null in an argument struct
  int64_t traceme_context_id;       // of an argument struct: the framework's id of the call
};

// The extension of that kind in a list; null where there is none.
inline const ProfilerExtension* FindProfilerExtension(const PJRT_Extension_Base* list) {
  return FindInList<ProfilerExtension>(list, PJRT_Extension_Type_Profiler);
}

}  // namespace torus::pjrt

#endif  // TORUS_TPU_PJRT_PROFILER_H_
