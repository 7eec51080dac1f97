// The software TPU: a PJRT plugin that shows the chips of a slice and runs programs on an engine.
//
// It wraps another PJRT_Api and is one. Objects are the engine's own, passed through, so that the
// engine's extensions keep working; what makes them a TPU (coordinates, HBM, memory statistics)
// stands beside them in maps. There is one software TPU in a process, as PJRT's functions have no
// argument that could tell two apart.
#ifndef TORUS_TPU_DEVICE_SOFTWARE_TPU_H_
#define TORUS_TPU_DEVICE_SOFTWARE_TPU_H_

#include <functional>
#include <string>

#include "base/status.h"
#include "slice/counters.h"
#include "tpu/device/host_memory.h"
#include "tpu/device/program_cache.h"
#include "tpu/device/slice.h"
#include "tpu/pjrt/api.h"

namespace torus::tpu {

struct SoftwareTpuOptions {
  std::string version;        // of Torus, "0.1.0"
  int64_t release_epoch = 0;  // when that version was released, seconds since 1970
  // Asked when a client is made, not before, so that the program may set its environment first.
  std::function<SliceSource()> slice_source = SliceSource::FromEnvironment;
  // Where a client's counters are shown; asked when it is made. Empty: nowhere.
  std::function<std::string()> counters_folder = slice::WritableCountersFolder;
  HostMemory::Roots host;
  ProgramCacheOptions program_cache;
  // Of Torus and of the engine (compiler_identity.h). Empty: it is not known, so programs that they
  // compile are not kept.
  std::string builds;
};

// The table of a software TPU on `engine`, or, where that is an error, a table that answers with
// it. The table lives for ever and none of its entries is null. May be called again only when
// every client of the table before is destroyed (tests do): the old table then acts on the new
// engine.
const PJRT_Api* MakeSoftwareTpu(Result<const PJRT_Api*> engine, SoftwareTpuOptions options);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_SOFTWARE_TPU_H_
