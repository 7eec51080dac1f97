// The slice's chips, cores and host, and which replica runs where.
#include "tpu/tensorflow/adapter/handles.h"

namespace torus::tensorflow {
namespace {

// TensorFlow keeps what it gets for good and changes none of it.
SE_TpuTopology_Core* Handle(const Core* core) {
  return static_cast<SE_TpuTopology_Core*>(const_cast<Core*>(core));
}

// Only TensorCores: the software TPU has no SparseCores.
int Cores(TpuCoreTypeEnum type) {
  return type == kTensorCore ? static_cast<int>(TheTopology()->cores.size()) : 0;
}

void ListCores(TpuCoreTypeEnum type, SE_TpuTopology_Core** cores) {
  for (int i = 0; i < Cores(type); ++i) cores[i] = Handle(&TheTopology()->cores[i]);
}

// Replica by replica, from core 0.
void Assign(int replicas, int computations, int* assignment, TF_Status* status) {
  const int count = replicas * computations;
  if (count > Cores(kTensorCore))
    return Set(status, InvalidArgument("{} replicas of {} cores each: the slice has {} cores",
                                       replicas, computations, Cores(kTensorCore)));
  for (int i = 0; i < count; ++i) assignment[i] = i;
}

SE_TpuTopology_Core the_host;  // its place is the origin

}  // namespace
}  // namespace torus::tensorflow

using torus::tensorflow::Cores;
using torus::tensorflow::Handle;
using torus::tensorflow::TheTopology;

TORUS_TFTPU TfTopology* TpuUtil_GetTopologyPtr() { return TheTopology(); }
TORUS_TFTPU TfTopology* TpuPlatform_GetTopologyPtr(SE_Platform*) { return TheTopology(); }
TORUS_TFTPU SE_TpuTopology_Host* TpuPlatform_GetHostLocation(SE_Platform*) {
  return &torus::tensorflow::the_host;
}

TORUS_TFTPU int TpuTopology_LogicalDevicesPerHost(TfTopology*, TpuCoreTypeEnum type) {
  return Cores(type);
}
TORUS_TFTPU int TpuTopology_LogicalDevicesPerChip(TfTopology* topology, TpuCoreTypeEnum type) {
  return type == kTensorCore ? topology->cores_per_chip : 0;
}
TORUS_TFTPU int TpuTopology_HostCount(TfTopology*) { return 1; }
TORUS_TFTPU int TpuTopology_ChipsPerHost(TfTopology* topology) { return topology->chips(); }
TORUS_TFTPU int TpuTopology_ChipBounds_X(TfTopology* topology) { return topology->bounds[0]; }
TORUS_TFTPU int TpuTopology_ChipBounds_Y(TfTopology* topology) { return topology->bounds[1]; }
TORUS_TFTPU int TpuTopology_ChipBounds_Z(TfTopology* topology) { return topology->bounds[2]; }
TORUS_TFTPU bool TpuTopology_HasChip(TfTopology* topology, int x, int y, int z) {
  return topology->At(x, y, z, 0) != nullptr;
}
TORUS_TFTPU SE_TpuTopology_Core* TpuTopology_CoreForId(TfTopology* topology, TpuCoreTypeEnum type,
                                                       int id) {
  return id >= 0 && id < Cores(type) ? Handle(&topology->cores[id]) : nullptr;
}
TORUS_TFTPU SE_TpuTopology_Core* TpuTopology_Core(TfTopology* topology, TpuCoreTypeEnum, int x,
                                                  int y, int z, int index) {
  return Handle(topology->At(x, y, z, index));
}
TORUS_TFTPU int TpuTopology_NumCores(TfTopology*, TpuCoreTypeEnum type) { return Cores(type); }
TORUS_TFTPU void TpuTopology_Cores(TfTopology*, TpuCoreTypeEnum type, SE_TpuTopology_Core** cores) {
  torus::tensorflow::ListCores(type, cores);
}
TORUS_TFTPU int TpuTopology_IdForHost(TfTopology*, int, int, int) { return 0; }
TORUS_TFTPU int TpuTopology_AvailableCoreCount(const XLA_TpuMeshState*, TpuCoreTypeEnum type) {
  return Cores(type);
}
TORUS_TFTPU int TpuTopology_AvailableCoresPerChip(TpuCoreTypeEnum type) {
  return type == kTensorCore ? TheTopology()->cores_per_chip : 0;
}

TORUS_TFTPU TpuVersionEnum TpuTopology_Version(TfTopology* topology) {
  if (topology->kind.starts_with("TPU v2")) return kTpuV2;
  if (topology->kind.starts_with("TPU v3")) return kTpuV3;
#if TORUS_TENSORFLOW_MINOR < 18
  return kTpuV4;  // the newest that TensorFlow knows
#else
  if (topology->kind.starts_with("TPU v4")) return kTpuV4;
  return kTpuV5;  // the newest that TensorFlow knows
#endif
}

TORUS_TFTPU void TpuCoreLocation_ChipCoordinates(SE_TpuTopology_Core* core, int* x, int* y,
                                                 int* z) {
  *x = core->chip[0];
  *y = core->chip[1];
  *z = core->chip[2];
}
TORUS_TFTPU void TpuCoreLocation_HostCoordinates(SE_TpuTopology_Core*, int* x, int* y, int* z) {
  *x = *y = *z = 0;
}
TORUS_TFTPU int TpuCoreLocation_Index(SE_TpuTopology_Core* core) { return core->index; }
TORUS_TFTPU int TpuCoreLocation_Id(SE_TpuTopology_Core* core) { return core->id; }

TORUS_TFTPU int TpuHostLocation_Id(SE_TpuTopology_Host*) { return 0; }
TORUS_TFTPU int TpuHostLocation_NumCores(SE_TpuTopology_Host*, TpuCoreTypeEnum type) {
  return Cores(type);
}
TORUS_TFTPU void TpuHostLocation_Cores(SE_TpuTopology_Host*, TpuCoreTypeEnum type,
                                       SE_TpuTopology_Core** cores) {
  torus::tensorflow::ListCores(type, cores);
}

TORUS_TFTPU XLA_ComputationPlacer* TpuComputationPlacer_New() {
  return reinterpret_cast<XLA_ComputationPlacer*>(new char);
}
TORUS_TFTPU void TpuComputationPlacer_Free(XLA_ComputationPlacer* placer) {
  delete reinterpret_cast<char*>(placer);
}
TORUS_TFTPU void TpuComputationPlacer_AssignDevices(XLA_ComputationPlacer*, int replicas,
                                                    int computations, int* assignment,
                                                    TF_Status* status) {
  torus::tensorflow::Assign(replicas, computations, assignment, status);
}
TORUS_TFTPU void TpuComputationPlacer_AssignLocalDevices(SE_TpuTopology_Host*, int replicas,
                                                         int computations, int* assignment,
                                                         TF_Status* status) {
  torus::tensorflow::Assign(replicas, computations, assignment, status);
}
