// The host of a program's run: TensorFlow's rendezvous, where the host's side of an outside
// compilation (_XlaRecvAtHost, _XlaSendFromHost) waits for the device and is waited for.
#ifndef TORUS_TPU_TENSORFLOW_ADAPTER_RENDEZVOUS_H_
#define TORUS_TPU_TENSORFLOW_ADAPTER_RENDEZVOUS_H_

#include <memory>

#include "tpu/tensorflow/runtime/host_transfers.h"
#include "xla/stream_executor/tpu/c_api_decl.h"

namespace torus::tensorflow {

// Null where `params` is. The rendezvous is TensorFlow's and lasts until the stream of the run has
// nothing left.
std::shared_ptr<Host> HostOf(const SE_OutsideCompilationParams* params);

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_ADAPTER_RENDEZVOUS_H_
