// The structs of OpenXLA's PJRT extension XlaTransform (pjrt_c_api_xla_transform_extension.h,
// version 1). For xla_transform.cc and for the fake engine of tests.
#ifndef TORUS_TPU_PJRT_XLA_TRANSFORM_ABI_H_
#define TORUS_TPU_PJRT_XLA_TRANSFORM_ABI_H_

#include "tpu/pjrt/api.h"

namespace torus::pjrt::xla_transform {

inline constexpr int kExtensionType = 24;  // PJRT_Extension_Type_XlaTransform
inline constexpr int64_t kVersion = 1;
inline constexpr int kPostScheduler = 1;

struct Text {
  const char* data;
  size_t size;
};

struct TransformArgs {
  size_t struct_size;
  struct {
    int64_t api_version;
    void* data;              // out: what cleanup frees
    void (*cleanup)(void*);  // out
    bool has_error;          // out
    PJRT_Error_Code code;    // out
    Text error_message;      // out
  } header;
  Text module;
  Text transformed;  // out
  bool changed;      // out
};

struct Callbacks {
  int64_t version;
  void (*destroy)(Callbacks*);
  void (*transform)(Callbacks*, TransformArgs*);
};

struct RegisterArgs {
  size_t struct_size;
  const char* name;
  size_t name_size;
  int stage;
  Callbacks* callbacks;
};

struct ClearArgs {
  size_t struct_size;
  int stage;
  const char* name;
  size_t name_size;
  Callbacks* callbacks;
  bool cleared;  // out
};

struct Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*set)(RegisterArgs*);
  PJRT_Error* (*clear)(ClearArgs*);
};

}  // namespace torus::pjrt::xla_transform

#endif  // TORUS_TPU_PJRT_XLA_TRANSFORM_ABI_H_
