// Structs of the extension, and the one hook that is set while a compile wants it.
#include "tpu/pjrt/xla_transform.h"

#include "base/mutex.h"
#include "tpu/pjrt/extensions.h"
#include "tpu/pjrt/xla_transform_abi.h"

namespace torus::pjrt {
namespace {

using xla_transform::Callbacks;
using xla_transform::ClearArgs;
using xla_transform::Extension;
using xla_transform::RegisterArgs;
using xla_transform::TransformArgs;

constexpr std::string_view kName = "torus";

Result<const Extension*> FindExtension(const Engine& engine) {
  if (!engine.status().ok()) return torus::Error(engine.status());
  const auto* found =
      FindInList<Extension>(engine.api()->extension_start, xla_transform::kExtensionType);
  if (found != nullptr) return found;
  return Unimplemented("The engine does not show its programs (no PJRT extension XlaTransform).");
}

// Another thread's compile may still be in the hook when it is cleared: hence the second lock.
struct Hook {
  Mutex mutex;
  const Transform* transform TORUS_GUARDED_BY(mutex) = nullptr;
};

Hook& TheHook() {
  static Hook& hook = *new Hook;
  return hook;
}

void Call(Callbacks*, TransformArgs* args) {
  std::optional<std::string> transformed;
  {
    Hook& hook = TheHook();
    const MutexLock lock(hook.mutex);
    if (hook.transform == nullptr) return;
    transformed = (*hook.transform)({args->module.data, args->module.size});
  }
  if (!transformed) return;
  auto* kept = new std::string(std::move(*transformed));
  args->changed = true;
  args->transformed = {kept->data(), kept->size()};
  args->header.data = kept;
  args->header.cleanup = [](void* data) { delete static_cast<std::string*>(data); };
}

void SetHook(const Transform* transform) {
  Hook& hook = TheHook();
  const MutexLock lock(hook.mutex);
  hook.transform = transform;
}

}  // namespace

Status WithTransform(Engine& engine, const Transform& transform,
                     const std::function<Status()>& compile) {
  static Mutex& one_at_a_time = *new Mutex;
  static Callbacks& callbacks = *new Callbacks{xla_transform::kVersion, nullptr, Call};
  TORUS_ASSIGN_OR_RETURN(const Extension* extension, FindExtension(engine));
  const MutexLock lock(one_at_a_time);
  RegisterArgs set{sizeof(set), kName.data(), kName.size(), xla_transform::kPostScheduler,
                   &callbacks};
  TORUS_RETURN_IF_ERROR(engine.Take(extension->set(&set)));
  SetHook(&transform);
  const Status status = compile();
  SetHook(nullptr);
  ClearArgs clear{
      sizeof(clear), xla_transform::kPostScheduler, kName.data(), kName.size(), &callbacks, false};
  engine.Take(extension->clear(&clear)).ok();
  return status;
}

}  // namespace torus::pjrt
