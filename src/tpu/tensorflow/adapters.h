// Which adapter serves the TensorFlow in this process.
//
// An adapter is built against one TensorFlow and calls that TensorFlow's C++, so it is opened only
// where that version is in the process. Thread-safety: none; called once.
#ifndef TORUS_TPU_TENSORFLOW_ADAPTERS_H_
#define TORUS_TPU_TENSORFLOW_ADAPTERS_H_

#include <span>

#include "base/status.h"
#include "tpu/pjrt/api.h"

namespace torus::tensorflow {

// A function by its name, and where libtpu.so keeps its address.
struct Target {
  const char* name;
  void** address;
};

// Opens tensorflow/VERSION/adapter.so beside this library, gives it the API, and points every
// target that it has to its function. NOT_FOUND: no TensorFlow is in the process; UNIMPLEMENTED: no
// adapter for its version, with those there are; FAILED_PRECONDITION: the adapter does not open.
Status BindAdapter(std::span<const Target> targets, const PJRT_Api* api);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_ADAPTERS_H_
