// What answers at port 8470 of a VM whose runtime version has no TensorFlow: FAILED_PRECONDITION to
// every call, with what to do. A TensorFlow client waits for ever at a port that nobody answers.
//
// The port stays the VM's: the refusal listens at another one, to which the VM's nft rules lead
// 8470 for as long as no program of the VM listens there itself. A connection that comes after one
// began to, and before it was noticed, is closed, and the next one is the program's.
//
// Not thread-safe: one caller at a time. Threads: GrpcListener's.
#ifndef TORUS_WORKER_TENSORFLOW_REFUSAL_H_
#define TORUS_WORKER_TENSORFLOW_REFUSAL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "worker.pb.h"

namespace torus::worker {

// What clients are told.
std::string RefusalOf(const VmSpec& vm);

class TensorFlowRefusal {
 public:
  TensorFlowRefusal();
  ~TensorFlowRefusal();

  // Leads port 8470 of process `pid`'s network here, or, where a program of the VM listens there,
  // to that. To be called again every few seconds. An error leaves the port as it is.
  Status Keep(const VmSpec& vm, int64_t pid);

  // Closes every socket, so that the namespace can go. Idempotent.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // while the port leads here
  int64_t pid_ = 0;             // whose network has the rules that we know of
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_TENSORFLOW_REFUSAL_H_
