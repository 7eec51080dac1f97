// Calls through the engine's two tables of functions: its PJRT FFI extension and XLA's FFI table.
#include "tpu/pjrt/ffi.h"

#include <cstring>

#include "tpu/pjrt/extensions.h"
#include "tpu/pjrt/ffi_abi.h"

namespace torus::pjrt::ffi {
namespace {

// Whether the call ended well; its error is freed.
bool Succeeded(const Api* api, Error* error) {
  if (error == nullptr) return true;
  DestroyErrorArgs destroy{sizeof(destroy), nullptr, error};
  api->destroy_error(&destroy);
  return false;
}

Error* MakeError(const Api* api, const Status& status) {
  CreateErrorArgs args{sizeof(args), nullptr, status.message().c_str(),
                       static_cast<int>(status.code())};
  return api->create_error(&args);
}

Result<const Extension*> FindExtension(const Engine& engine) {
  if (!engine.status().ok()) return torus::Error(engine.status());
  const auto* found = FindInList<Extension>(engine.api()->extension_start, kFfiExtensionType);
  if (found != nullptr && engine.api()->pjrt_api_version.minor_version >= kOldestMinor)
    return found;
  return Unimplemented(
      "The engine has no PJRT FFI extension of 0.{} or newer, so no code of Torus can run in its "
      "programs.",
      kOldestMinor);
}

constexpr int32_t kArray = 1, kScalar = 3;  // kinds of attributes
constexpr int32_t kS64 = 5;

// Null where there is none of that name and kind.
const void* FindAttribute(const CallFrame& call, std::string_view name, int32_t kind) {
  const auto& attributes = call.attributes;
  for (int64_t i = 0; i < attributes.size; ++i) {
    const ByteSpan& own = *attributes.names[i];
    if (std::string_view(own.data, own.size) == name && attributes.types[i] == kind) {
      return attributes.values[i];
    }
  }
  return nullptr;
}

}  // namespace

size_t Buffer::bytes(size_t element_bytes) const {
  size_t bytes = element_bytes;
  for (const int64_t dimension : dimensions()) bytes *= static_cast<size_t>(dimension);
  return bytes;
}

std::optional<int64_t> FindInt(const CallFrame& call, std::string_view name) {
  const auto* scalar = static_cast<const Scalar*>(FindAttribute(call, name, kScalar));
  if (scalar == nullptr || scalar->dtype != kS64) return std::nullopt;
  return *static_cast<const int64_t*>(scalar->value);
}

std::span<const int64_t> FindInts(const CallFrame& call, std::string_view name) {
  const auto* array = static_cast<const Array*>(FindAttribute(call, name, kArray));
  if (array == nullptr || array->dtype != kS64) return {};
  return {static_cast<const int64_t*>(array->data), array->size};
}

void* FindUserData(const CallFrame& call, int64_t type_id) {
  const TypeId type{type_id};
  GetContextArgs args{sizeof(args), nullptr, call.context, &type, nullptr};
  return Succeeded(call.api, call.api->get_context(&args)) ? args.data : nullptr;
}

std::optional<int> DeviceOrdinal(const CallFrame& call) {
  if (call.api->struct_size < sizeof(Api)) return std::nullopt;
  DeviceOrdinalArgs args{sizeof(args), nullptr, call.context, -1};
  if (!Succeeded(call.api, call.api->device_ordinal(&args))) return std::nullopt;
  return args.device_ordinal;
}

Result<Completion> Completion::Defer(CallFrame& call) {
  CreateFutureArgs args{sizeof(args), nullptr, nullptr};
  constexpr size_t kNeeded = offsetof(Api, set_error) + sizeof(call.api->set_error);
  if (call.api->struct_size < kNeeded || !Succeeded(call.api, call.api->create_future(&args))) {
    return Unimplemented("The engine is too old for operations that end later (XLA FFI 0.1).");
  }
  call.future = args.future;
  return Completion(call.api, args.future);
}

void Completion::Finish(const Status& status) {
  if (status.ok()) {
    SetAvailableArgs args{sizeof(args), nullptr, future_};
    Succeeded(api_, api_->set_available(&args));
  } else {
    SetErrorArgs args{sizeof(args), nullptr, future_, MakeError(api_, status)};
    Succeeded(api_, api_->set_error(&args));
  }
}

void* Answer(CallFrame* call, Function function) {
  if (call->extension_start != nullptr) {
    auto* extension = static_cast<MetadataExtension*>(call->extension_start);
    if (extension->type == kMetadataExtension) {
      // What is used here is there in every version, so the version is the one that asks.
      auto& version = extension->metadata->api_version;
      version.major_version = call->api->api_version.major_version;
      version.minor_version = call->api->api_version.minor_version;
      return nullptr;
    }
  }
  const Status status = function(*call);
  return status.ok() ? nullptr : MakeError(call->api, status);
}

Status Register(Engine& engine, std::string_view target, RawHandler handler) {
  constexpr std::string_view kPlatform = "Host";
  TORUS_ASSIGN_OR_RETURN(const Extension* extension, FindExtension(engine));
  RegisterHandlerArgs args{.struct_size = sizeof(args),
                           .target_name = target.data(),
                           .target_name_size = target.size(),
                           .handler = reinterpret_cast<void*>(handler),
                           .platform_name = kPlatform.data(),
                           .platform_name_size = kPlatform.size(),
                           .traits = 0};
  return engine.Take(extension->register_handler(&args));
}

Result<int64_t> RegisterType(Engine& engine, std::string_view name) {
  constexpr void* kNoFunctions[8] = {};
  TORUS_ASSIGN_OR_RETURN(const Extension* extension, FindExtension(engine));
  RegisterTypeArgs args{.struct_size = sizeof(args),
                        .extension_start = nullptr,
                        .type_name = name.data(),
                        .type_name_size = name.size(),
                        .type_id = 0,
                        .type_info = kNoFunctions};
  TORUS_RETURN_IF_ERROR(engine.Take(extension->register_type(&args)));
  return args.type_id;
}

Status AddUserData(Engine& engine, PJRT_ExecuteContext* context, int64_t type_id, void* data) {
  TORUS_ASSIGN_OR_RETURN(const Extension* extension, FindExtension(engine));
  AddUserDataArgs args{.struct_size = sizeof(args),
                       .extension_start = nullptr,
                       .context = context,
                       .type_id = type_id,
                       .data = data,
                       .deleter = nullptr};
  return engine.Take(extension->add_user_data(&args));
}

}  // namespace torus::pjrt::ffi
