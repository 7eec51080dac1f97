// What the opaque types of TensorFlow's TPU API are here, and how errors and exports are written.
//
// An adapter is built against one TensorFlow's headers, so a struct that grew from version to
// version has the size which that TensorFlow gives it. Everything that does not need TensorFlow's
// C++ is in runtime/. Thread-safety: as the room's.
#ifndef TORUS_TPU_TENSORFLOW_ADAPTER_HANDLES_H_
#define TORUS_TPU_TENSORFLOW_ADAPTER_HANDLES_H_

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "base/status.h"
#include "tpu/tensorflow/runtime/array.h"
#include "tpu/tensorflow/runtime/program.h"
#include "tpu/tensorflow/runtime/stream.h"
#include "tpu/tensorflow/runtime/topology.h"
#include "xla/stream_executor/tpu/tpu_executor_c_api.h"
#include "xla/stream_executor/tpu/tpu_ops_c_api.h"
#include "xla/stream_executor/tpu/tpu_profiler_c_api.h"

// A function of the API: what libtpu.so finds by its name.
#define TORUS_TFTPU extern "C" __attribute__((visibility("default")))

struct TSL_Status {
  torus::Status status;
};
struct SE_Platform {};
struct SE_StreamExecutor {
  int ordinal;
};
struct SE_Stream {
  int ordinal;
  std::shared_ptr<torus::tensorflow::Stream> stream;
};
struct SE_Event {
  // Null: never recorded, which nothing waits for.
  std::shared_ptr<torus::tensorflow::Completion> recorded;
};
struct SE_TpuTopology : torus::tensorflow::Topology {};
struct SE_TpuTopology_Core : torus::tensorflow::Core {};
// As functions take and return it: const since 2.20.
using TfTopology = std::remove_pointer_t<decltype(TpuUtil_GetTopologyPtr())>;

namespace torus::tensorflow {

inline void Set(TF_Status* out, Status status) { out->status = std::move(status); }

inline Status FromAbsl(const absl::Status& status) {
  return Status(static_cast<Code>(status.raw_code()), std::string(status.message()));
}
inline absl::Status ToAbsl(const Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.code()), status.message());
}

inline DeviceMemory* MemoryOf(const SE_DeviceMemoryBase& base) {
  return static_cast<DeviceMemory*>(base.opaque);
}

// A copy that TensorFlow frees with delete[].
char* NewBytes(std::string_view bytes);
// The same, with a zero behind.
char* NewText(std::string_view text);

// Of a function that has no body here: its error says so, by name.
void SayUnimplemented(const char* function, TF_Status* status);

// The slice's.
TfTopology* TheTopology();

}  // namespace torus::tensorflow

#endif  // TORUS_TPU_TENSORFLOW_ADAPTER_HANDLES_H_
