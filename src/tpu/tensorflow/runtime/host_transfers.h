// What a program sends to the host, and receives from it, while it runs.
//
// TensorFlow names each transfer and computes the other side of it by itself (outside compilation):
// here is what stands between it and the callbacks of PJRT. No thread waits for a transfer.
// Thread-safety: all.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_HOST_TRANSFERS_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_HOST_TRANSFERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "tpu/pjrt/api.h"
#include "tpu/program/hlo.h"

namespace torus::tensorflow {

struct HostTransfer {
  int64_t channel = 0;
  std::string name;  // as the host knows it
  bool to_host = false;
  // On the host an array is dense and row-major.
  program::ElementType type = program::ElementType::kInvalid;
  std::vector<int64_t> dimensions;
};

// Those of a program. INVALID_ARGUMENT for one without a name.
Result<std::vector<HostTransfer>> HostTransfersOf(const program::HloModule& module);

// The host of one device's run.
class Host {
 public:
  virtual ~Host() = default;
  // Takes what the device sent.
  virtual Status Take(const HostTransfer& transfer, std::string_view data) = 0;
  // Calls `give` once, at any time on any thread, with what the device is to receive: as many bytes
  // as the array has. `transfer` is there until `give` returns.
  virtual void Give(const HostTransfer& transfer,
                    std::function<void(Result<std::string>)> give) = 0;
  // The run has failed: what the host still waits for does not come.
  virtual void Abort(const Status& status) = 0;
};

// One device's run as PJRT calls it back.
//
// A host that fails ends the run, but not where other devices take part in it: they would wait for
// one that has stopped. Such a run goes on with zeros, and whoever enqueued it makes its results
// the failure. (One that goes on for long may be a loop that waits for the host, and is ended.)
class HostRun : public std::enable_shared_from_this<HostRun> {
 public:
  using Transfers = std::shared_ptr<const std::vector<HostTransfer>>;

  HostRun(Transfers transfers, std::shared_ptr<Host> host, bool joint);
  HostRun(const HostRun&) = delete;
  HostRun& operator=(const HostRun&) = delete;

  // What PJRT_ExecuteOptions wants. REQUIRES: this lives until the run has ended.
  std::vector<PJRT_SendCallbackInfo>& sends() { return sends_; }
  std::vector<PJRT_RecvCallbackInfo>& recvs() { return recvs_; }

  // The first of the host's.
  Status failure() const;
  void Abort(const Status& status) { host_->Abort(status); }

 private:
  struct Line {
    HostRun* run;
    const HostTransfer* transfer;
  };

  static PJRT_Error* OnSend(PJRT_Chunk* chunk, PJRT_CallbackError* make_error, size_t, bool whole,
                            void* line);
  static void OnRecv(PJRT_CopyToDeviceStream* stream, void* line);
  void Feed(PJRT_CopyToDeviceStream* stream, const HostTransfer& transfer,
            Result<std::string> data);
  // Whether the run goes on all the same.
  bool Bears(Status failure);

  const Transfers transfers_;
  const std::shared_ptr<Host> host_;
  std::atomic<int> bearable_;
  std::vector<Line> lines_;
  std::vector<PJRT_SendCallbackInfo> sends_;
  std::vector<PJRT_RecvCallbackInfo> recvs_;
  mutable Mutex mutex_;
  Status failure_ TORUS_GUARDED_BY(mutex_);
};

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_HOST_TRANSFERS_H_
