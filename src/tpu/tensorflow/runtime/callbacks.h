// Threads for what TensorFlow wants called back. A callback may run much of TensorFlow, and may
// wait for another, so one that waits never keeps another from running; and never is it a thread of
// the engine's. Thread-safety: all.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_CALLBACKS_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_CALLBACKS_H_

#include <functional>

namespace torus::tensorflow {

// Runs it soon, on a thread that has nothing else to do; one is started where there is none.
void CallBack(std::function<void()> callback);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_CALLBACKS_H_
