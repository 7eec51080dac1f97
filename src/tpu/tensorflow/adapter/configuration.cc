// Setting the TPU system up and taking it down: what tf.tpu.experimental.initialize_tpu_system
// runs, and what TensorFlow asks when it lists devices.
#include <atomic>
#include <cstdio>
#include <string>

#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/protobuf/tpu/topology.pb.h"
#include "tpu/pjrt/args.h"
#include "tpu/tensorflow/adapter/handles.h"
#include "tpu/tensorflow/runtime/tpu.h"

struct XLA_TpuMeshState {};
struct XLA_TpuEmbeddingEngineState {};
struct XLA_TpuNodeContext {};
struct TfTpu_OrdinalSelector {
  std::atomic<int64_t> next = 0;
};

namespace torus::tensorflow {
namespace {

// FAILED_PRECONDITION where there is no slice, with what was looked for.
Status CheckSlice() {
  const auto& topology = *TheTopology();
  if (!topology.cores.empty()) return Status();
  return FailedPrecondition("no TPU: {}", topology.why);
}

Status TakeChips() {
  TORUS_RETURN_IF_ERROR(CheckSlice());
  TORUS_RETURN_IF_ERROR(Tpu::Get());
  return Status();
}

std::string SerializedTopology(int hosts) {
  const auto& topology = *TheTopology();
  ::tensorflow::tpu::TopologyProto proto;
  for (const int bound : topology.bounds) proto.add_mesh_shape(bound);
  proto.add_mesh_shape(topology.cores_per_chip);
  proto.set_num_tasks(hosts);
  proto.set_num_tpu_devices_per_task(static_cast<int>(topology.cores.size()));
  for (const auto& core : topology.cores) {
    for (const int coordinate : core.chip) proto.add_device_coordinates(coordinate);
    proto.add_device_coordinates(core.index);
  }
  return proto.SerializeAsString();
}

void Give(const std::string& bytes, char** out, size_t* size) {
  *out = NewBytes(bytes);
  *size = bytes.size();
}

// What TensorFlow passes from host to host and wants back.
constexpr char kHostConfig[] = "torus";

}  // namespace
}  // namespace torus::tensorflow

namespace runtime = torus::tensorflow;
using runtime::Set;
using runtime::TheTopology;

// ---- The system

TORUS_TFTPU void ConfigureDistributedTpuOp_DoWork(ConfigureDistributedTpuOp_DoWork_Params* params) {
  if (params->num_cores_per_host_size > 1)
    return Set(params->status,
               torus::Unimplemented("a slice of {} hosts in TensorFlow: Torus runs one host's",
                                    params->num_cores_per_host_size));
  if (auto status = runtime::TakeChips(); !status.ok()) return Set(params->status, status);
  LOG(INFO) << "TPU system initialized: TPU " << TheTopology()->accelerator_type;
  runtime::Give(runtime::kHostConfig, params->host_config_output, params->host_config_output_size);
}

TORUS_TFTPU void InitializeHostForDistributedTpuOp_DoWork(
    InitializeHostForDistributedTpuOp_DoWork_Params* params) {
  const auto& cores = TheTopology()->cores;
  *params->core_id_output = new int32_t[cores.size()];
  for (size_t i = 0; i < cores.size(); ++i) (*params->core_id_output)[i] = cores[i].id;
  *params->core_id_output_size = cores.size();
}

TORUS_TFTPU void WaitForDistributedTpuOp_DoWork(WaitForDistributedTpuOp_DoWork_Params* params) {
  runtime::Give(runtime::SerializedTopology(static_cast<int>(params->num_hosts)),
                params->tpu_topology_output, params->tpu_topology_output_size);
}

TORUS_TFTPU void SetGlobalTPUArrayOp_DoWork(size_t, const char*, TF_Status*) {}

TORUS_TFTPU void DisconnectDistributedTpuChipsOp_DoWork(int32_t* chips, TF_Status*) {
  *chips = TheTopology()->chips();
}

TORUS_TFTPU void TpuConfigurationApi_FreeCharArray(char* bytes) { delete[] bytes; }
TORUS_TFTPU void TpuConfigurationApi_FreeInt32Array(int32_t* values) { delete[] values; }
TORUS_TFTPU bool TpuConfigurationApi_HasTPUPodState() { return true; }

TORUS_TFTPU void TpuConfigurationApi_TpusPerHost(int32_t* tpus, TF_Status*) {
  *tpus = static_cast<int32_t>(TheTopology()->cores.size());
  // No error, which would keep TensorFlow from all it can do without a TPU; so it is said here.
  static const bool said = [] {
    const auto status = runtime::CheckSlice();
    if (!status.ok()) std::fprintf(stderr, "libtpu: %s\n", status.message().c_str());
    return true;
  }();
  static_cast<void>(said);
}

// Only told to the user; the limit itself is kept where memory is. Asking must not take the chips.
TORUS_TFTPU void TpuConfigurationApi_TpuMemoryLimit(int64_t* bytes, TF_Status*) {
  *bytes = TheTopology()->hbm_bytes;
}

TORUS_TFTPU void TpuConfigurationApi_RemoteCompilationCacheSizeInBytes(int64_t* bytes) {
  *bytes = int64_t{1} << 30;
}

TORUS_TFTPU void TpuConfigurationApi_CompilationCacheServerAddressFromConfig(
    TpuConfigurationApi_CompilationCacheServerAddrFromConfig_Params* params) {
  runtime::Give("localhost:0", params->server_address_output, params->server_address_output_size);
}

TORUS_TFTPU void TpuConfigurationApi_GetServerAddressAndPort(
    TpuConfigurationApi_GetServerAddressAndPort_Params* params) {
  constexpr int kPort = 8471;  // of TensorFlow's own cache service
  runtime::Give("localhost:" + std::to_string(kPort), params->server_address_output,
                params->server_address_output_size);
  *params->port_output = kPort;
}

// ---- States that TensorFlow holds and hands back

TORUS_TFTPU XLA_TpuMeshState* TpuMeshState_Create() { return new XLA_TpuMeshState; }
TORUS_TFTPU void TpuMeshState_Free(XLA_TpuMeshState* state) { delete state; }
TORUS_TFTPU void* TpuMeshState_MeshCommonState(XLA_TpuMeshState* state) { return state; }

TORUS_TFTPU XLA_TpuEmbeddingEngineState* TpuEmbeddingEngineState_Create() {
  return new XLA_TpuEmbeddingEngineState;
}
TORUS_TFTPU void TpuEmbeddingEngineState_Free(XLA_TpuEmbeddingEngineState* state) { delete state; }
TORUS_TFTPU void* TpuEmbeddingEngineState_GetState(XLA_TpuEmbeddingEngineState* state) {
  return state;
}
TORUS_TFTPU void TpuExecute_GetTpuEmbeddingMemoryAllocations(int, SE_DeviceMemoryBase** addresses,
                                                             size_t* count, TF_Status*) {
  *addresses = nullptr;
  *count = 0;
}
TORUS_TFTPU void TpuExecute_FreeTpuEmbeddingMemoryAllocations(int, SE_DeviceMemoryBase*) {}

TORUS_TFTPU XLA_TpuNodeContext* TpuNodeContext_Create(int, TF_Status*) {
  return new XLA_TpuNodeContext;
}
TORUS_TFTPU void TpuNodeContext_Free(XLA_TpuNodeContext* context) { delete context; }
TORUS_TFTPU void TpuNodeContext_Initialize(int, TF_Status*) {}
TORUS_TFTPU bool TpuNodeContext_CompactionSupported(int) { return false; }

// TensorFlow does this when a step is cancelled: replicas that wait for one that failed would wait
// for ever.
TORUS_TFTPU void TpuNodeContext_CloseTpuHost(TF_Status*) {
  runtime::Program::FailWaiting(
      {torus::Code::kCancelled, "the step was cancelled: another replica or operation failed"});
}

TORUS_TFTPU void TfTpu_InitializeTpuModelServer() {}
TORUS_TFTPU void TpuNetUtil_RecycleUnusedPort(int) {}
TORUS_TFTPU void TpuAsyncCollectiveOffloadHelper_Init() {}
TORUS_TFTPU void TpuAsyncCollectiveOffloadHelper_Shutdown() {}
// Bytes, by which TensorFlow aligns what it packs: the engine's alignment of buffers.
TORUS_TFTPU size_t TpuUtil_GetXlaPadSizeFromTpuTopology() { return 64; }

// ---- TPUPartitionedCall

TORUS_TFTPU void TfTpuOrdinalSelector_Create(TfTpuOrdinalSelector** selector, int) {
  *selector = new TfTpu_OrdinalSelector;
}
TORUS_TFTPU void TfTpuOrdinalSelector_Destroy(TfTpuOrdinalSelector* selector) { delete selector; }
TORUS_TFTPU void TfTpuOrdinalSelector_GetOrdinal(TfTpuOrdinalSelector* selector,
                                                 std::optional<uint64_t>, int64_t* request,
                                                 int64_t* ordinal) {
  *request = selector->next++;
  const auto cores = static_cast<int64_t>(TheTopology()->cores.size());
  *ordinal = cores == 0 ? 0 : *request % cores;  // of none, what runs there says why
}
TORUS_TFTPU void TfTpuOrdinalSelector_DequeueFromCoreSelector(TfTpuOrdinalSelector*, int32_t,
                                                              int64_t) {}
TORUS_TFTPU void TfTpu_GetTpuPartitionedCallParams(TpuPartitionedCall_Params* params) {
  *params = {};
  params->minimum_input_tensors_packing = 128;
  params->minimum_output_tensors_packing = 128;
}
