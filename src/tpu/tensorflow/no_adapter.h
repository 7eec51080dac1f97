// Where no adapter serves the TensorFlow in this process.
#ifndef TORUS_TPU_TENSORFLOW_NO_ADAPTER_H_
#define TORUS_TPU_TENSORFLOW_NO_ADAPTER_H_

#include <span>

#include "tpu/tensorflow/adapters.h"

namespace torus::tensorflow {

// Points those targets that TensorFlow calls before it uses a TPU to functions that need no
// adapter: the host has no TPU. That is no error, since all else of TensorFlow works.
void StandIn(std::span<const Target> targets);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_NO_ADAPTER_H_
