// libFuzzer's way into a target.
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  torus::fuzz::Fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
