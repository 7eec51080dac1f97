// One process at a time on a chip, as upstream has it.
//
// A lock file stands for the chips of a node, one byte a core; the kernel keeps the lock for as
// long as the process lives, so what a dead process held is free at once and needs no clean-up. A
// process may lock more cores of a file later; it never gives one up. Thread-safety: all functions,
// from any thread.
#ifndef TORUS_TPU_DEVICE_CHIPS_LOCK_H_
#define TORUS_TPU_DEVICE_CHIPS_LOCK_H_

#include <span>
#include <string>

#include "base/status.h"

namespace torus::tpu {

// Locks the cores (slice.h) of the file at `path`, which is made if need be. ABORTED, in upstream's
// words, where another process has one of them: its pid and command, or how to find it; the cores
// before it stay locked.
Status LockChips(const std::string& path, std::span<const int> cores);

// Holds the files at `paths` open until the process ends, those that are plain files: tpu-info
// finds the process of a chip by them. A device's own file is left alone.
void HoldDeviceFiles(std::span<const std::string> paths);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_CHIPS_LOCK_H_
