// A trace as XProf and TensorBoard read it: a serialized XSpace.
//
// One plane "/device:TPU:N" a device, with lines "Steps", "XLA Modules" and "XLA Ops", and a plane
// "/host:metadata" with the programs. Names of planes, lines and statistics are those that libtpu
// writes and XProf looks for; field numbers are those of OpenXLA's xplane.proto.
// Thread-safety: pure functions.
#ifndef TORUS_TPU_DEVICE_XSPACE_H_
#define TORUS_TPU_DEVICE_XSPACE_H_

#include <string>

#include "tpu/device/trace.h"

namespace torus::tpu {

struct XSpaceOptions {
  bool operations = true;  // their times, not only those of whole programs
  bool programs = true;    // the plane of programs
};

std::string WriteXSpace(const Trace& trace, const XSpaceOptions& options);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_XSPACE_H_
