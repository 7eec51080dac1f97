// The engine: another PJRT plugin that does the work, reached safely.
//
// An Engine is opened from a file, or stands for the reason why there is none: then each call
// answers with that reason, so a table built over it is usable whatever happened. A call to a
// function that the engine lacks answers UNIMPLEMENTED with the function's name. A struct that is
// shorter than the engine wants (an older framework's) is widened.
//
// Errors are of two makers: the engine's, and ours (NewError). Both are PJRT_Error to a framework,
// which frees them with the same PJRT_Error_Destroy; Engine tells them apart.
//
// Thread-safety: all methods may be called from any thread. Lifetime: an engine's library is never
// unloaded (its threads may be running), so an Engine is made once and kept.
#ifndef TORUS_TPU_PJRT_ENGINE_H_
#define TORUS_TPU_PJRT_ENGINE_H_

#include <atomic>
#include <string>

#include "base/status.h"
#include "tpu/pjrt/api.h"
#include "tpu/pjrt/args.h"

namespace torus::pjrt {

class Engine {
 public:
  // Opens the plugin at `path` with RTLD_LOCAL. FAILED_PRECONDITION says which file, what it lacks
  // (the loader's own words, the symbol, the version) and how to get an engine.
  static Result<const PJRT_Api*> Open(const std::string& path);

  // Uses `api`, which must outlive the engine, or stands for the error.
  explicit Engine(Result<const PJRT_Api*> api);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Null where there is no engine.
  const PJRT_Api* api() const { return api_; }
  // Why there is no engine; OK where there is one.
  const Status& status() const { return status_; }

  // Calls the function at `slot` with the caller's struct.
  PJRT_Error* Call(size_t slot, void* args) {
    const Function function = functions_[slot];
    if (function == nullptr) return Missing(slot);
    if (StructSize(args) < wanted_[slot].load(std::memory_order_relaxed)) {
      return CallWidened(slot, args);
    }
    PJRT_Error* error = function(args);
    return error == nullptr ? nullptr : WidenIfTooShort(slot, args, error);
  }

  // The status that `error` has, which is freed; OK for null.
  Status Take(PJRT_Error* error);

  // PJRT_Error_Destroy, _Message, _GetCode and _ForEachPayload, for errors of either maker.
  void Destroy(PJRT_Error_Destroy_Args* args);
  void Message(PJRT_Error_Message_Args* args);
  PJRT_Error* GetCode(PJRT_Error_GetCode_Args* args);
  PJRT_Error* ForEachPayload(ErrorForEachPayloadArgs* args);

 private:
  PJRT_Error* Missing(size_t slot) const;
  PJRT_Error* CallWidened(size_t slot, void* args);
  PJRT_Error* WidenIfTooShort(size_t slot, void* args, PJRT_Error* error);

  const PJRT_Api* api_ = nullptr;
  Status status_;
  Function functions_[kSlots] = {};
  // The least struct size that the engine takes, learned when it refuses a shorter one; 0 before.
  std::atomic<size_t> wanted_[kSlots] = {};
};

// A new error of ours; the framework frees it. `status` is not OK.
PJRT_Error* NewError(const Status& status);

// The error of a Status, or null for OK.
inline PJRT_Error* ToError(const Status& status) {
  return status.ok() ? nullptr : NewError(status);
}

}  // namespace torus::pjrt

#endif  // TORUS_TPU_PJRT_ENGINE_H_
