// The process's TPU, as TensorFlow's runtime uses it: a client of libtpu.so's own PJRT API.
//
// TensorFlow asks for the topology when it is imported and for memory much later; the client, and
// with it the chips, are taken only by what needs a device. Thread-safety: all.
#ifndef TORUS_TPU_TENSORFLOW_RUNTIME_TPU_H_
#define TORUS_TPU_TENSORFLOW_RUNTIME_TPU_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tpu/pjrt/api.h"

namespace torus::tensorflow {

// The status that an error of the API has; frees it. Null is OK.
Status Take(const PJRT_Api* api, PJRT_Error* error);

class Tpu {
 public:
  // REQUIRES: before anything else of this room is used. `api` outlives the process.
  static void SetApi(const PJRT_Api* api);
  static const PJRT_Api* api();

  // The process's. The first call that succeeds takes the chips, for good; one that fails is tried
  // again by the next. FAILED_PRECONDITION or ALREADY_EXISTS as the API says: another process has
  // them.
  static Result<const Tpu*> Get();

  PJRT_Client* client() const { return client_; }
  // By ordinal: the cores of this host, in the order of their ids.
  const std::vector<PJRT_Device*>& devices() const { return devices_; }
  // INVALID_ARGUMENT where there is no such core.
  Result<PJRT_Device*> device(int ordinal) const;
  // The number that a device assignment calls it by.
  Result<int> DeviceId(int ordinal) const;

  Status Take(PJRT_Error* error) const { return tensorflow::Take(api(), error); }

  // Calls `done` once the event is ready, on a thread of the engine's or at once on this one;
  // `done` must not block. Takes the event; null is ready.
  void WhenReady(PJRT_Event* event, std::function<void(Status)> done) const;

 private:
  Tpu(PJRT_Client* client, std::vector<PJRT_Device*> devices)
      : client_(client), devices_(std::move(devices)) {}
  static Result<const Tpu*> Make();

  PJRT_Client* client_;
  std::vector<PJRT_Device*> devices_;
};

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_RUNTIME_TPU_H_
