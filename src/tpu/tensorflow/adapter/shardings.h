// Model parallelism: TensorFlow's shardings of a function's arguments and results, told to tf2xla.
#ifndef TORUS_TPU_TENSORFLOW_ADAPTER_SHARDINGS_H_
#define TORUS_TPU_TENSORFLOW_ADAPTER_SHARDINGS_H_

#include "base/status.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "tensorflow/core/tpu/kernels/tpu_compile.pb.h"

namespace torus::tensorflow {

// Gives the function that the compiler is to compile what the request says of its arguments and
// results. The program's parameters and results then lie where TensorFlow expects them; else tf2xla
// takes all parameters for the first core's, and XLA lays the results out as it likes. A program of
// one core gets none.
Status SetShardings(const ::tensorflow::tpu::TpuCompilationRequestProto& request,
                    ::tensorflow::XlaCompiler& compiler);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_ADAPTER_SHARDINGS_H_
