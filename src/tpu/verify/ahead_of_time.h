// Another libtpu's compiler, ahead of time: a topology without devices and programs compiled for
// it.
#ifndef TORUS_TPU_VERIFY_AHEAD_OF_TIME_H_
#define TORUS_TPU_VERIFY_AHEAD_OF_TIME_H_

#include <memory>
#include <string>

#include "tpu/pjrt/engine.h"
#include "tpu/verify/message.h"

namespace torus::tpu::verify {

// Thread-safety: one thread. The library may print, or end the process: run it in one of its own.
class AheadOfTime {
 public:
  // Loads the library and describes the topology, "v5e:2x2". The error says which file, and what it
  // said.
  static Result<AheadOfTime> Open(const std::string& library, const std::string& topology);

  Estimate Compile(const Request& request);

 private:
  AheadOfTime(std::unique_ptr<pjrt::Engine> library, PJRT_TopologyDescription* topology)
      : library_(std::move(library)), topology_(topology) {}

  Status Examine(PJRT_Executable* executable, Estimate& estimate);

  std::unique_ptr<pjrt::Engine> library_;
  PJRT_TopologyDescription* topology_;
};

}  // namespace torus::tpu::verify

#endif  // TORUS_TPU_VERIFY_AHEAD_OF_TIME_H_
