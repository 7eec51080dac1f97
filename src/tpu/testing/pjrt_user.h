// A small user of a PJRT plugin, for tests and benchmarks: what a framework does, in a few calls.
//
// It runs programs on one device at a time. Errors come back as Status; what it returns as a raw
// pointer the caller frees with Destroy. Thread-safety: as the plugin's; a PjrtUser itself is
// immutable.
#ifndef TORUS_TPU_TESTING_PJRT_USER_H_
#define TORUS_TPU_TESTING_PJRT_USER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tpu/pjrt/api.h"

namespace torus::tpu {

class PjrtUser {
 public:
  // A client of the plugin. `device_count`: the option cpu_device_count, or 0 for none;
  // `framework`: the option ml_framework_name, or empty for none.
  static Result<PjrtUser> Make(const PJRT_Api* api, int64_t device_count = 0,
                               std::string_view framework = {});

  PjrtUser(PjrtUser&& other) noexcept;
  ~PjrtUser();

  const PJRT_Api* api() const { return api_; }
  PJRT_Client* client() const { return client_; }
  const std::vector<PJRT_Device*>& devices() const { return devices_; }
  PJRT_DeviceDescription* Description(int device) const;

  // Compiles MLIR text, or a program of another format, for one device. `options` is a
  // CompileOptionsProto; empty: one replica.
  Result<PJRT_LoadedExecutable*> Compile(std::string_view code, std::string_view options = {},
                                         std::string_view format = "mlir") const;
  // A one-dimensional buffer of `values` on a device.
  Result<PJRT_Buffer*> FromHost(const std::vector<float>& values, int device = 0) const;
  Result<PJRT_Buffer*> Uninitialized(int64_t floats, int device = 0) const;
  Result<std::vector<float>> ToHost(PJRT_Buffer* buffer) const;
  // Runs on the executable's device; `options_size` is what the caller says its options have.
  Result<std::vector<PJRT_Buffer*>> Run(PJRT_LoadedExecutable* executable,
                                        std::vector<PJRT_Buffer*> arguments, size_t outputs,
                                        size_t options_size = sizeof(PJRT_ExecuteOptions)) const {
    return RunOn(nullptr, executable, std::move(arguments), outputs, options_size);
  }
  // Runs on the named device: the program's replica there.
  Result<std::vector<PJRT_Buffer*>> RunOn(PJRT_Device* device, PJRT_LoadedExecutable* executable,
                                          std::vector<PJRT_Buffer*> arguments, size_t outputs,
                                          size_t options_size = sizeof(PJRT_ExecuteOptions)) const;
  Result<PJRT_Device_MemoryStats_Args> MemoryStats(int device = 0) const;

  Status Destroy(PJRT_Buffer* buffer) const;
  Status Destroy(PJRT_LoadedExecutable* executable) const;

  // The status that an error of the plugin has; frees it.
  static Status Take(const PJRT_Api* api, PJRT_Error* error);

 private:
  PjrtUser(const PJRT_Api* api, PJRT_Client* client) : api_(api), client_(client) {}
  Status Take(PJRT_Error* error) const { return Take(api_, error); }

  const PJRT_Api* api_;
  PJRT_Client* client_;
  std::vector<PJRT_Device*> devices_;
};

}  // namespace torus::tpu

#endif  // TORUS_TPU_TESTING_PJRT_USER_H_
