// The list of errors of our own making.
#include "tpu/pjrt/error.h"

#include <memory>
#include <unordered_map>

#include "base/mutex.h"
#include "tpu/pjrt/engine.h"

namespace torus::pjrt {
namespace {

struct OwnErrors {
  Mutex mutex;
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
  const MutexLock lock(errors.mutex);
  errors.by_address.emplace(address, std::move(own));
  return static_cast<PJRT_Error*>(const_cast<void*>(address));
}

const Status* FindOwnError(const PJRT_Error* error) {
  auto& errors = Errors();
  const MutexLock lock(errors.mutex);
  const auto found = errors.by_address.find(error);
  return found == errors.by_address.end() ? nullptr : found->second.get();
}

bool FreeOwnError(const PJRT_Error* error) {
  auto& errors = Errors();
  const MutexLock lock(errors.mutex);
  return errors.by_address.erase(error) != 0;
}

}  // namespace torus::pjrt
