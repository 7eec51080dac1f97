// A TensorFlow that only says its version, which the environment names: for tests of adapters.cc.
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) const char* TF_Version() {
  return std::getenv("FAKE_TENSORFLOW_VERSION");
}
