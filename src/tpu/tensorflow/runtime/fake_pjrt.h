// A PJRT API for this room's tests, whose programs end when a test lets them.
//
// It is the second host of a slice of two: eight cores of sixteen, with ids 8 to 15. An array is of
// floats. A program has as many outputs as inputs: output i is input i plus 1 or, where it runs on
// several devices, the sum of theirs plus 1. The values are there at once; the program ends, as an
// engine's does, once it has come to the head of what was launched on each of its devices. Output i
// takes the buffer of input i, unless that is not to be given up. Before that, each device sends
// its first input, as a float, and receives another, by all the callbacks that the launch is given.
// A program that says "out-of-memory" does not compile. Thread-safety: all.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_FAKE_PJRT_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_FAKE_PJRT_H_

#include <cstdint>
#include <future>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tpu/pjrt/api.h"

namespace torus::tensorflow::fake_pjrt {

inline constexpr int kCores = 8;
inline constexpr int kFirstId = 8;

// Makes it the process's API; more calls do nothing.
void Install();

// From here on nothing that is launched ends, until Release ends it on the thread that calls it.
void Hold();
void Release();

// The next launch is refused; or it begins, and ends with the status.
void RefuseNext(Status status);
void FailNext(Status status);

struct Launched {
  int launches = 0;           // since the process began
  size_t devices = 0;         // of the latest
  std::vector<int64_t> kept;  // its inputs that were not to be given up
};
Launched launched();

// What a receive of one float gets when it ends; nothing where too little came.
using Received = std::future<std::vector<float>>;
std::pair<PJRT_CopyToDeviceStream*, Received> NewReceive();

// Buffers that were made and are not destroyed.
int LiveBuffers();

}  // namespace torus::tensorflow::fake_pjrt

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_FAKE_PJRT_H_
