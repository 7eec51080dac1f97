// The TfTpu API as libtpu.so exports it: each function jumps to the adapter's of its name.
//
// TensorFlow looks every name up when it is imported, and calls TfTpu_Initialize next; which
// adapter there must be is known only then. A name that the adapter lacks (one of another version)
// says so.
#include <array>
#include <cstdio>
#include <cstdlib>

#include "tpu/pjrt/api.h"
#include "tpu/tensorflow/adapters.h"
#include "tpu/tensorflow/no_adapter.h"

extern "C" const PJRT_Api* GetPjrtApi();

namespace {

// What a function does that has no body: of no arguments that it reads, and a result of zeros.
long Missing(const char* name) {
  std::fprintf(stderr, "libtpu: %s is not implemented by Torus's software TPU\n", name);
  return 0;
}

}  // namespace

// NAME jumps to where NAME_target points.
#define F(name)                                                                  \
  extern "C" __attribute__((visibility("hidden"))) void* name##_target;          \
  static long name##_missing() { return Missing(#name); }                        \
  void* name##_target = reinterpret_cast<void*>(&name##_missing);                \
  asm(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name \
      ":\n  jmp *" #name "_target(%rip)\n.size " #name ", . - " #name "\n.popsection");
#include "tpu/tensorflow/names.inc"
#undef F

namespace torus::tensorflow {
namespace {

#define F(name) {#name, &name##_target},
constexpr Target kTargets[] = {
#include "tpu/tensorflow/names.inc"
};
#undef F

}  // namespace
}  // namespace torus::tensorflow

// Called by TensorFlow when it is imported. The process goes on without a TPU where there is no
// adapter for it: what it can do without one is its own matter.
extern "C" __attribute__((visibility("default"))) void TfTpu_Initialize(bool, int, const char**) {
  static const bool bound = [] {
    const auto status = torus::tensorflow::BindAdapter(torus::tensorflow::kTargets, GetPjrtApi());
    if (!status.ok()) {
      std::fprintf(stderr, "libtpu: %s\n", status.message().c_str());
      torus::tensorflow::StandIn(torus::tensorflow::kTargets);
    }
    return status.ok();
  }();
  static_cast<void>(bound);
}
