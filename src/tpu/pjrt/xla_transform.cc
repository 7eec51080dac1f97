// Structs of the extension, and the one hook that is set while a compile wants it.
#include "tpu/pjrt/xla_transform.h"

#include "base/mutex.h"

namespace torus::pjrt {
namespace {

constexpr int kExtensionType = 24;  // PJRT_Extension_Type_XlaTransform
constexpr int64_t kVersion = 1;
constexpr int kPostScheduler = 1;
constexpr std::string_view kName = "torus";

struct Text {
  const char* data;
  size_t size;
};

struct TransformArgs {
  size_t struct_size;
  struct {
    int64_t api_version;
    void* data;              // out: what cleanup frees
    void (*cleanup)(void*);  // out
    bool has_error;          // out
    PJRT_Error_Code code;    // out
    Text error_message;      // out
  } header;
  Text module;
  Text transformed;  // out
  bool changed;      // out
};

struct Callbacks {
  int64_t version;
  void (*destroy)(Callbacks*);
  void (*transform)(Callbacks*, TransformArgs*);
};

struct RegisterArgs {
  size_t struct_size;
  const char* name;
  size_t name_size;
  int stage;
  Callbacks* callbacks;
};

struct ClearArgs {
  size_t struct_size;
  int stage;
  const char* name;
  size_t name_size;
  Callbacks* callbacks;
  bool cleared;  // out
};

struct Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*set)(RegisterArgs*);
  PJRT_Error* (*clear)(ClearArgs*);
};

Result<const Extension*> FindExtension(const Engine& engine) {
  if (!engine.status().ok()) return torus::Error(engine.status());
  for (auto* base = engine.api()->extension_start; base != nullptr; base = base->next) {
    if (static_cast<int>(base->type) == kExtensionType && base->struct_size >= sizeof(Extension)) {
      return reinterpret_cast<const Extension*>(base);
    }
  }
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
  static Callbacks& callbacks = *new Callbacks{kVersion, nullptr, Call};
  TORUS_ASSIGN_OR_RETURN(const Extension* extension, FindExtension(engine));
  const MutexLock lock(one_at_a_time);
  RegisterArgs set{sizeof(set), kName.data(), kName.size(), kPostScheduler, &callbacks};
  TORUS_RETURN_IF_ERROR(engine.Take(extension->set(&set)));
  SetHook(&transform);
  const Status status = compile();
  SetHook(nullptr);
  ClearArgs clear{sizeof(clear), kPostScheduler, kName.data(), kName.size(), &callbacks, false};
  engine.Take(extension->clear(&clear)).ok();
  return status;
}

}  // namespace torus::pjrt
