#include "tpu/tensorflow/no_adapter.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace torus::tensorflow {
namespace {

// A TF_Status is its library's own: TensorFlow only hands it back.
Status* New() { return new Status; }
Status* Create(int32_t code, const char* message) {
  return new Status(static_cast<Code>(code), message == nullptr ? "" : message);
}
void Set(Status* status, int32_t code, const char* message, int32_t length) {
  *status = Status(static_cast<Code>(code), message == nullptr ? "" : std::string(message, length));
}
void Free(Status* status) { delete status; }
const char* Message(Status* status) { return status->message().c_str(); }
int CodeOf(Status* status) { return static_cast<int>(status->code()); }
bool IsOk(Status* status) { return status->ok(); }

void TpusPerHost(int32_t* tpus, Status*) { *tpus = 0; }

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

const std::pair<std::string_view, void*> kFunctions[] = {
    {"TpuStatus_New", Address(New)},
    {"TpuStatus_Create", Address(Create)},
    {"TpuStatus_Set", Address(Set)},
    {"TpuStatus_Free", Address(Free)},
    {"TpuStatus_Message", Address(Message)},
    {"TpuStatus_Code", Address(CodeOf)},
    {"TpuStatus_Ok", Address(IsOk)},
    {"TpuConfigurationApi_TpusPerHost", Address(TpusPerHost)},
};

}  // namespace

void StandIn(std::span<const Target> targets) {
  for (const auto& target : targets)
    for (const auto& [name, function] : kFunctions)
      if (name == target.name) *target.address = function;
}

}  // namespace torus::tensorflow
