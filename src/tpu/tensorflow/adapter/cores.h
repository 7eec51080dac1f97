// Model parallelism: which of a program's inputs and outputs each core of a replica has.
//
// TensorFlow compiles a program of several cores as several programs, one a core, each with what
// the sharding puts there. Here it is one program, partitioned by SPMD, that every core runs: a
// core is given nothing for an input that is another's, and drops an output that is. Pure.
#ifndef TORUS_TPU_TENSORFLOW_ADAPTER_CORES_H_
#define TORUS_TPU_TENSORFLOW_ADAPTER_CORES_H_

#include <vector>

#include "base/status.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "tensorflow/core/protobuf/tpu/compile_metadata.pb.h"
#include "tensorflow/core/tpu/kernels/tpu_executable_info.pb.h"

namespace torus::tensorflow {

// One core's part.
struct CorePart {
  // The program's number of each, in order.
  std::vector<int> inputs, outputs;
  ::tensorflow::TPUExecutableInfoProto info;
  bool modifies_variables = false;
};

// A part for each core of a replica; one for all cores where TensorFlow itself asked for SPMD.
// INVALID_ARGUMENT where a sharding is none.
Result<std::vector<CorePart>> PartsOfCores(
    const ::tensorflow::tpu::TPUCompileMetadataProto& metadata,
    const ::tensorflow::XlaCompilationResult& result);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_ADAPTER_CORES_H_
