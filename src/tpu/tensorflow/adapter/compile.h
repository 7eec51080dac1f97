// From what TensorFlow asks to have compiled, a graph, to a program of the runtime.
#ifndef TORUS_TPU_TENSORFLOW_ADAPTER_COMPILE_H_
#define TORUS_TPU_TENSORFLOW_ADAPTER_COMPILE_H_

#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/tpu/kernels/tpu_compile.pb.h"
#include "tpu/tensorflow/adapter/cores.h"
#include "tpu/tensorflow/runtime/program.h"
#include "xla/service/hlo.pb.h"

namespace torus::tensorflow {

// What TensorFlow keeps of a compilation. Where it failed, `program` is null and `failure` says
// why: TensorFlow ends the process on a compilation that returns an error, so the program is handed
// out and fails when it is run, which Python sees as an exception.
struct CompiledGraph {
  std::shared_ptr<Program> program;
  Status failure;
  CorePart part;
  xla::HloProto hlo;  // without the code: what TensorFlow reads is the aliasing
  int64_t size = 0;   // bytes of the HLO, by which TensorFlow's cache of programs is bounded
};

// One for each core of a replica that runs a program of its own; see cores.h.
std::vector<CompiledGraph> CompileGraph(
    const ::tensorflow::tpu::TpuCompilationRequestProto& request);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_ADAPTER_COMPILE_H_
