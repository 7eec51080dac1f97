// An adapter that has one function of two, and says what API it was given: for tests of
// adapters.cc.
#include "tpu/pjrt/api.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {
const PJRT_Api* the_api = nullptr;
}

EXPORTED void torus_adapter_set_api(const PJRT_Api* api) { the_api = api; }
EXPORTED const PJRT_Api* TpuPlatform_New() { return the_api; }
