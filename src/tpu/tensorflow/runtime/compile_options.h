// A serialized xla.CompileOptionsProto for a program of TensorFlow's. Thread-safety: pure.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_COMPILE_OPTIONS_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_COMPILE_OPTIONS_H_

#include <string>
#include <vector>

namespace torus::tensorflow {

struct CompileOptions {
  int replicas = 1, partitions = 1;
  bool spmd = false;
  bool tuple_arguments = false;
  // Ids of devices, replica by replica; empty: any one device, named when it runs.
  std::vector<int> device_ids;
};

std::string Serialize(const CompileOptions& options);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_COMPILE_OPTIONS_H_
