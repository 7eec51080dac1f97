// The list of errors of our own making.
#include "tpu/pjrt/error.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "tpu/pjrt/engine.h"

namespace torus::pjrt {
namespace {

struct OwnErrors {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<const Status>> by_address;
};

// Never destroyed: an error may be freed by another library's exit handler.
OwnErrors& Errors() {
  static OwnErrors& errors = *new OwnErrors;
  return errors;
}

}  // namespace

PJRT_Error* NewError(const Status& status) {
  auto own = std::make_unique<const Status>(status);
  const void* address = own.get();
  auto& errors = Errors();
  const std::lock_guard lock(errors.mutex);
  errors.by_address.emplace(address, std::move(own));
  return static_cast<PJRT_Error*>(const_cast<void*>(address));
}

const Status* FindOwnError(const PJRT_Error* error) {
  auto& errors = Errors();
  const std::lock_guard lock(errors.mutex);
  const auto found = errors.by_address.find(error);
  return found == errors.by_address.end() ? nullptr : found->second.get();
}

bool FreeOwnError(const PJRT_Error* error) {
  auto& errors = Errors();
  const std::lock_guard lock(errors.mutex);
  return errors.by_address.erase(error) != 0;
}

}  // namespace torus::pjrt
