#include "tpu/tensorflow/runtime/compile_options.h"

#include <protozero/pbf_writer.hpp>

namespace torus::tensorflow {
namespace {

// xla/pjrt/proto/compile_options.proto
constexpr int kTupledArguments = 2, kBuildOptions = 3, kPortable = 4;            // CompileOptions
constexpr int kDeviceOrdinal = 1, kReplicas = 4, kPartitions = 5, kUseSpmd = 6,  // its BuildOptions
    kDeviceAssignment = 9;
// xla/xla_data.proto
constexpr int kReplicaCount = 1, kComputationCount = 2, kComputationDevices = 3;
constexpr int kReplicaDeviceIds = 1;

std::string Assignment(const CompileOptions& options) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_int32(kReplicaCount, options.replicas);
  writer.add_int32(kComputationCount, options.partitions);
  for (int partition = 0; partition < options.partitions; ++partition) {
    protozero::pbf_writer devices(writer, kComputationDevices);
    std::vector<int64_t> ids;
    for (int replica = 0; replica < options.replicas; ++replica)
      ids.push_back(options.device_ids[replica * options.partitions + partition]);
    devices.add_packed_int64(kReplicaDeviceIds, ids.begin(), ids.end());
  }
  return bytes;
}

}  // namespace

std::string Serialize(const CompileOptions& options) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  if (options.tuple_arguments) writer.add_bool(kTupledArguments, true);
  {
    protozero::pbf_writer build(writer, kBuildOptions);
    build.add_int64(kDeviceOrdinal, -1);
    build.add_int64(kReplicas, options.replicas);
    build.add_int64(kPartitions, options.partitions);
    if (options.spmd) build.add_bool(kUseSpmd, true);
    if (!options.device_ids.empty()) build.add_message(kDeviceAssignment, Assignment(options));
  }
  if (options.device_ids.empty()) writer.add_bool(kPortable, true);
  return bytes;
}

}  // namespace torus::tensorflow
