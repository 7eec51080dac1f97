// Which framework of this process has the chips: as upstream, one at a time.
//
// Two that load the same libtpu.so would each hold the chips for itself; upstream's second one
// fails with words about versions or other processes. Here it is told who has them. The same
// framework may make another client: JAX does when its backends are cleared. Thread-safety: all
// functions, from any thread.
#ifndef TORUS_TPU_DEVICE_FRAMEWORK_H_
#define TORUS_TPU_DEVICE_FRAMEWORK_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace torus::tpu {

// Cores of the node (slice.h) that the lock file stands for (chips_lock.h).
struct ChipsUse {
  std::string lock_file;
  std::vector<int> cores;
  std::string library;  // the file of the framework's code
};

// The file of the code that is at the address; empty where it is in none.
std::string LibraryAt(const void* code);
// "PyTorch/XLA", "JAX", ...; the library's own name where it is none that is known.
std::string FrameworkOf(const std::string& library);

// ABORTED where another framework's client has one of the cores.
Status CheckFramework(const ChipsUse& use);
// From now on, until it is forgotten, the client has the cores.
void NoteFramework(const void* client, ChipsUse use);
void ForgetFramework(const void* client);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_FRAMEWORK_H_
