// Runs the calls that collectives become (program/collectives.h): each brings its device's part to
// where the slice's devices meet. Thread-safety: all functions, from any thread.
#ifndef TORUS_TPU_DEVICE_COLLECTIVES_H_
#define TORUS_TPU_DEVICE_COLLECTIVES_H_

#include <map>
#include <memory>

#include "base/mutex.h"
#include "tpu/device/meetings.h"
#include "tpu/pjrt/engine.h"

namespace torus::tpu {

struct Device;

// One device's run of a program with collectives.
struct Launch {
  std::shared_ptr<MeetingPlace> meetings;
  int64_t device = 0;
  int64_t number = 0;  // among the device's own: equal numbers meet
  Mutex mutex;
  std::map<int64_t, int64_t> rounds TORUS_GUARDED_BY(mutex);  // of each place, so far
};

// The device's next one. To be called in the order in which the framework runs its programs.
std::shared_ptr<Launch> NextLaunch(Device& device);

// Makes the engine know the calls. UNIMPLEMENTED where it has no FFI.
Status RegisterCollectives(pjrt::Engine& engine);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_COLLECTIVES_H_
