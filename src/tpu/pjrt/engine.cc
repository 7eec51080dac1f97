// Opens an engine, calls it, and widens what an older framework passes.
#include "tpu/pjrt/engine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <optional>

#include "tpu/pjrt/error.h"

namespace torus::pjrt {
namespace {

constexpr char kHowToGetOne[] =
    "Fetch the pinned engine with scripts/deps.sh in Torus's source folder and build again, or "
    "name another PJRT plugin with the environment variable TORUS_ENGINE";

Error CannotUse(const std::string& path, std::string_view why) {
  return FailedPrecondition("libtpu.so cannot use the engine {}: {}. {}.", path, why, kHowToGetOne);
}

// The size that the engine names when it refuses a struct as too short: "Unexpected
// PJRT_ExecuteOptions size: expected 112, got 80. Check installed software versions."
std::optional<size_t> WantedSize(std::string_view message) {
  constexpr std::string_view kBefore = " size: expected ";
  const auto at = message.find(kBefore);
  if (!message.contains("Unexpected PJRT_") || at == message.npos) return std::nullopt;
  const auto digits = message.substr(at + kBefore.size());
  size_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || size > kAmpleSize) return std::nullopt;
  return size;
}

}  // namespace

Result<const PJRT_Api*> Engine::Open(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) return CannotUse(path, "there is no such file");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return CannotUse(path, dlerror());
  using GetApi = const PJRT_Api* (*)();
  const auto get_api = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    return CannotUse(path, "it is not a PJRT plugin, for it has no symbol GetPjrtApi");
  }
  const PJRT_Api* api = get_api();
  if (api == nullptr) return CannotUse(path, "its GetPjrtApi returns null");
  const auto& version = api->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR || version.minor_version < kOldestEngineMinor) {
    return CannotUse(path, fmt::format("it has PJRT C API {}.{}, and {}.{} or newer is needed",
                                       version.major_version, version.minor_version, PJRT_API_MAJOR,
                                       kOldestEngineMinor));
  }
  return api;
}

Engine::Engine(Result<const PJRT_Api*> api) {
  if (!api) {
    status_ = std::move(api).error();
    return;
  }
  api_ = *api;
  const auto* table = reinterpret_cast<const Table*>(api_);
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (kFirstFunction + (slot + 1) * sizeof(Function) <= api_->struct_size) {
      functions_[slot] = table->functions[slot];
    }
  }
}

PJRT_Error* Engine::Missing(size_t slot) const {
  if (!status_.ok()) return NewError(status_);
  return NewError(Unimplemented("{} is not implemented by the engine (PJRT C API {}.{}).",
                                FunctionName(slot), api_->pjrt_api_version.major_version,
                                api_->pjrt_api_version.minor_version));
}

PJRT_Error* Engine::CallWidened(size_t slot, void* args) {
  alignas(std::max_align_t) char wide[kAmpleSize] = {};
  const size_t size = StructSize(args);
  std::memcpy(wide, args, size);
  std::memcpy(wide, &kAmpleSize, sizeof(size));
  PJRT_Error* error = functions_[slot](wide);
  // The caller sees every output it has room for, and its own size again.
  std::memcpy(wide, &size, sizeof(size));
  std::memcpy(args, wide, size);
  return error;
}

PJRT_Error* Engine::WidenIfTooShort(size_t slot, void* args, PJRT_Error* error) {
  auto message = MakeArgs<PJRT_Error_Message_Args>();
  message.error = error;
  Message(&message);
  const auto wanted = WantedSize({message.message, message.message_size});
  // A struct inside this one may be what is too short: then widening this one is no help. And of
  // functions newer than the header nobody knows which inputs the caller left out.
  if (!wanted || StructSize(args) >= *wanted || slot >= kHeaderSlots) return error;
  Take(error).ok();
  wanted_[slot].store(*wanted, std::memory_order_relaxed);
  return CallWidened(slot, args);
}

Status Engine::Take(PJRT_Error* error) {
  if (error == nullptr) return Status();
  auto message = MakeArgs<PJRT_Error_Message_Args>();
  message.error = error;
  Message(&message);
  auto code = MakeArgs<PJRT_Error_GetCode_Args>();
  code.error = error;
  if (PJRT_Error* failed = GetCode(&code)) {
    FreeOwnError(failed);
    code.code = PJRT_Error_Code_UNKNOWN;
  }
  Status status(static_cast<Code>(code.code), std::string(message.message, message.message_size));
  auto destroy = MakeArgs<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  Destroy(&destroy);
  return status;
}

void Engine::Destroy(PJRT_Error_Destroy_Args* args) {
  if (args->error == nullptr || FreeOwnError(args->error)) return;
  if (api_ != nullptr) api_->PJRT_Error_Destroy(args);
}

void Engine::Message(PJRT_Error_Message_Args* args) {
  if (const Status* own = FindOwnError(args->error)) {
    args->message = own->message().c_str();
    args->message_size = own->message().size();
  } else if (api_ != nullptr) {
    api_->PJRT_Error_Message(args);
  }
}

PJRT_Error* Engine::GetCode(PJRT_Error_GetCode_Args* args) {
  if (const Status* own = FindOwnError(args->error)) {
    args->code = static_cast<PJRT_Error_Code>(own->code());
    return nullptr;
  }
  return api_ == nullptr ? Missing(kError_GetCode) : api_->PJRT_Error_GetCode(args);
}

PJRT_Error* Engine::ForEachPayload(ErrorForEachPayloadArgs* args) {
  if (FindOwnError(args->error) != nullptr) return nullptr;
  return Call(kError_ForEachPayload, args);
}

}  // namespace torus::pjrt
