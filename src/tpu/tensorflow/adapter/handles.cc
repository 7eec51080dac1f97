#include "tpu/tensorflow/adapter/handles.h"

#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

namespace torus::tensorflow {

char* NewBytes(std::string_view bytes) {
  auto* copy = new char[bytes.size()];
  std::memcpy(copy, bytes.data(), bytes.size());
  return copy;
}

char* NewText(std::string_view text) {
  auto* copy = new char[text.size() + 1];
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

void SayUnimplemented(const char* function, TF_Status* status) {
  auto error = Unimplemented("{} is not implemented by Torus's software TPU", function);
  if (status != nullptr) return Set(status, std::move(error).error());
  static std::mutex mutex;
  static std::set<const char*> said;
  const std::lock_guard lock(mutex);
  if (said.insert(function).second)
    std::fprintf(stderr, "libtpu: %s\n", error.error().message().c_str());
}

TfTopology* TheTopology() {
  static auto& topology = *new SE_TpuTopology{Topology::Get()};
  return &topology;
}

}  // namespace torus::tensorflow

TORUS_TFTPU TF_Status* TpuStatus_New() { return new TF_Status; }

TORUS_TFTPU TF_Status* TpuStatus_Create(int32_t code, const char* message) {
  return new TF_Status{{static_cast<torus::Code>(code), message == nullptr ? "" : message}};
}

TORUS_TFTPU void TpuStatus_Set(TF_Status* status, int32_t code, const char* message,
                               int32_t length) {
  status->status = torus::Status(static_cast<torus::Code>(code),
                                 message == nullptr ? "" : std::string(message, length));
}

TORUS_TFTPU void TpuStatus_Free(TF_Status* status) { delete status; }

TORUS_TFTPU const char* TpuStatus_Message(TF_Status* status) {
  return status->status.message().c_str();
}

TORUS_TFTPU int TpuStatus_Code(TF_Status* status) {
  return static_cast<int>(status->status.code());
}

TORUS_TFTPU bool TpuStatus_Ok(TF_Status* status) { return status->status.ok(); }
