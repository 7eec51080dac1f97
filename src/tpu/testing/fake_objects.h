// The objects of the fake engine, which PJRT leaves to a plugin.
#ifndef TORUS_TPU_TESTING_FAKE_OBJECTS_H_
#define TORUS_TPU_TESTING_FAKE_OBJECTS_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "tpu/pjrt/api.h"
#include "tpu/program/hlo.h"
#include "tpu/testing/fake_hlo.h"
#include "tpu/testing/fake_signal.h"

namespace torus::tpu::fake {

// Runs of programs that have not ended: a client waits for them before it goes.
struct Runs {
  Mutex mutex;
  Condition changed;
  int running TORUS_GUARDED_BY(mutex) = 0;
};

// The data of a buffer, there when it is ready.
struct Contents {
  Array array;
  Signal ready;
};

}  // namespace torus::tpu::fake

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string message;
};
struct PJRT_Event {
  std::shared_ptr<torus::tpu::fake::Signal> signal;  // null: it has happened
};
struct PJRT_DeviceDescription {
  int id = 0;
};
struct PJRT_Memory {
  PJRT_Device* device = nullptr;
  std::string kind;
};
struct PJRT_Device {
  PJRT_DeviceDescription description;
  PJRT_Memory memories[2];  // the device's and the host's
  PJRT_Memory* memory_list[2] = {&memories[0], &memories[1]};
};
struct PJRT_Client {
  std::deque<PJRT_Device> devices;
  std::vector<PJRT_Device*> device_list;
  std::shared_ptr<torus::tpu::fake::Runs> runs = std::make_shared<torus::tpu::fake::Runs>();
};
struct PJRT_Executable {
  std::map<std::string, std::string> words;
  // As XLA's, a serialized one has another fingerprint.
  std::string fingerprint = "compiled";
  // Of a program of HLO, whose words are its name and how many devices it is for.
  std::string code = {};  // serialized
  std::shared_ptr<const torus::program::HloModule> module = nullptr;

  int64_t Number(const char* key) const {
    const auto found = words.find(key);
    return found == words.end() ? 0 : std::stoll(found->second);
  }
};
struct PJRT_LoadedExecutable {
  PJRT_Executable executable;
  std::vector<PJRT_Device*> devices;
  std::shared_ptr<torus::tpu::fake::Runs> runs;

  // Launches that the devices bring part by part, by launch id.
  struct Launch {
    std::shared_ptr<torus::tpu::fake::Meeting> meeting;
    size_t joined = 0;
  };
  torus::Mutex mutex = {};
  std::map<int, Launch> launches TORUS_GUARDED_BY(mutex) = {};
};
struct PJRT_TopologyDescription {};
struct PJRT_SerializedExecutable {
  std::string bytes;
};
struct PJRT_ExecuteContext {
  torus::tpu::fake::UserData data;
};
struct PJRT_Buffer {
  PJRT_Memory* memory;
  size_t bytes;
  bool deleted = false;
  std::shared_ptr<torus::tpu::fake::Contents> contents = nullptr;  // null: it holds no data
};
struct PJRT_AsyncHostToDeviceTransferManager {
  PJRT_Memory* memory;
  std::vector<size_t> bytes;
};

namespace torus::tpu::fake {

inline PJRT_Error* Fail(PJRT_Error_Code code, std::string message) {
  return new PJRT_Error{code, std::move(message)};
}
inline PJRT_Error* ToError(const Status& status) {
  return status.ok() ? nullptr
                     : Fail(static_cast<PJRT_Error_Code>(status.code()), status.message());
}

}  // namespace torus::tpu::fake

#endif  // TORUS_TPU_TESTING_FAKE_OBJECTS_H_
