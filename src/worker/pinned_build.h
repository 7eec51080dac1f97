// The libtpu.so, its companions and the engine that a VM was made with: hard links (or copies) in
// the VM's own folder, so that an upgrade on the host changes no VM that exists.
#ifndef TORUS_WORKER_PINNED_BUILD_H_
#define TORUS_WORKER_PINNED_BUILD_H_

#include <string>

#include "base/status.h"

namespace torus::worker {

// Puts `libtpu` at <folder>/libtpu.so and `engine` at <folder>/engine/xla_cpu.so, unless they are
// there. FAILED_PRECONDITION when one is missing. With a fresh libtpu.so come torus-verify, the
// adapters for TensorFlow and the Python package beside it, or beside the file that it is a link
// to, as far as there are any: they are of one build.
Status PinBuild(const std::string& folder, const std::string& libtpu, const std::string& engine);

}  // namespace torus::worker

#endif  // TORUS_WORKER_PINNED_BUILD_H_
