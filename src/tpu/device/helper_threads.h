// Threads for a framework's code, which may take long and wait for anything.
//
// As many as there are tasks at once, so that no task waits for another; a thread without a task
// ends after a while. There is none before the first task. Thread-safety: from any thread.
#ifndef TORUS_TPU_DEVICE_HELPER_THREADS_H_
#define TORUS_TPU_DEVICE_HELPER_THREADS_H_

#include <functional>

namespace torus::tpu {

// Runs the task on a helper thread, or, where no thread can be had, on this one.
void RunOnHelper(std::function<void()> task);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_HELPER_THREADS_H_
