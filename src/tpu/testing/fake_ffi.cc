// XLA's table of FFI functions over Signals, and call frames made of arrays.
#include "tpu/testing/fake_ffi.h"

#include <cstdio>
#include <cstring>
#include <optional>

#include "base/mutex.h"
#include "tpu/pjrt/ffi_abi.h"
#include "tpu/testing/fake_signal.h"

namespace ffi = torus::pjrt::ffi;
using torus::tpu::fake::Signal;
using torus::tpu::fake::UserData;

// What is opaque to handlers.
struct torus::pjrt::ffi::Error {
  Status status;
};
struct torus::pjrt::ffi::ExecutionContext {
  int device;
  const UserData* user_data;
};
struct torus::pjrt::ffi::Future {
  std::shared_ptr<Signal> signal = std::make_shared<Signal>();
};

namespace torus::tpu::fake {
namespace {

struct Registry {
  Mutex mutex;
  std::map<std::string, ffi::RawHandler, std::less<>> handlers TORUS_GUARDED_BY(mutex);
  std::map<std::string, int64_t, std::less<>> types TORUS_GUARDED_BY(mutex);
};

Registry& registry() {
  static Registry& registry = *new Registry;
  return registry;
}

// ---- The table

ffi::Error* CreateError(ffi::CreateErrorArgs* args) {
  return new ffi::Error{Status(static_cast<Code>(args->code), args->message)};
}

void DestroyError(ffi::DestroyErrorArgs* args) { delete args->error; }

// As XLA, which does not look whether the run has a context at all.
ffi::Error* GetContext(ffi::GetContextArgs* args) {
  const UserData& data = *args->context->user_data;
  const auto found = data.find(args->type_id->type_id);
  if (found == data.end()) {
    return new ffi::Error{NotFound("The run has no user data of that type.")};
  }
  args->data = found->second;
  return nullptr;
}

ffi::Error* DeviceOrdinal(ffi::DeviceOrdinalArgs* args) {
  args->device_ordinal = args->context->device;
  return nullptr;
}

ffi::Error* CreateFuture(ffi::CreateFutureArgs* args) {
  args->future = new ffi::Future;
  return nullptr;
}

// The future is gone as soon as it is set: its waiter frees it.
ffi::Error* SetAvailable(ffi::SetAvailableArgs* args) {
  const auto signal = args->future->signal;
  signal->Set(Status());
  return nullptr;
}

ffi::Error* SetError(ffi::SetErrorArgs* args) {
  const auto signal = args->future->signal;
  signal->Set(args->error->status);
  delete args->error;
  return nullptr;
}

const ffi::Api& Table() {
  static const ffi::Api table = [] {
    ffi::Api api{};
    api.struct_size = sizeof(api);
    api.api_version = {sizeof(ffi::ApiVersion), nullptr, 0, 3};
    api.create_error = CreateError;
    api.destroy_error = DestroyError;
    api.get_context = GetContext;
    api.create_future = CreateFuture;
    api.set_available = SetAvailable;
    api.set_error = SetError;
    api.device_ordinal = DeviceOrdinal;
    return api;
  }();
  return table;
}

// ---- Frames

ffi::CallFrame EmptyFrame() {
  ffi::CallFrame frame{};
  frame.struct_size = sizeof(frame);
  frame.api = &Table();
  frame.stage = ffi::Stage::kExecute;
  return frame;
}

// Arguments or results, as a frame points to them.
class BufferList {
 public:
  explicit BufferList(const std::vector<Array>& arrays) : types_(arrays.size(), 1) {
    buffers_.reserve(arrays.size());
    for (const Array& array : arrays) {
      const auto& shape = array.shape;
      buffers_.push_back({sizeof(ffi::Buffer), nullptr, static_cast<int32_t>(shape.element_type),
                          array.bytes ? array.bytes->data() : nullptr,
                          static_cast<int64_t>(shape.dimensions.size()), shape.dimensions.data()});
      pointers_.push_back(&buffers_.back());
    }
  }
  BufferList(const BufferList&) = delete;

  ffi::Buffers get() {
    return {sizeof(ffi::Buffers), nullptr, static_cast<int64_t>(buffers_.size()), types_.data(),
            pointers_.data()};
  }

 private:
  std::vector<int32_t> types_;
  std::vector<ffi::Buffer> buffers_;
  std::vector<ffi::Buffer*> pointers_;
};

// The one integer that attributes of Torus's calls are.
class IntAttribute {
 public:
  explicit IntAttribute(const std::string& text) {
    char name[64] = {};
    if (std::sscanf(text.c_str(), "{%63s = %ld : i64}", name, &number_) == 2) name_ = name;
    span_ = {name_.data(), name_.size()};
  }
  IntAttribute(const IntAttribute&) = delete;

  ffi::Attributes get() {
    return {sizeof(ffi::Attributes), nullptr, name_.empty() ? 0 : 1, &kind_, &names_, &values_};
  }

 private:
  static constexpr int32_t kScalar = 3, kS64 = 5;
  std::string name_;
  int64_t number_ = 0;
  ffi::ByteSpan span_{};
  ffi::Scalar scalar_{kS64, &number_};
  int32_t kind_ = kScalar;
  ffi::ByteSpan* names_ = &span_;
  void* values_ = &scalar_;
};

Status Take(void* error) {
  const std::unique_ptr<ffi::Error> own(static_cast<ffi::Error*>(error));
  return own == nullptr ? Status() : own->status;
}

}  // namespace

Status RegisterHandler(std::string_view target, void* handler) {
  const auto call = reinterpret_cast<ffi::RawHandler>(handler);
  ffi::MetadataExtension::Metadata metadata{sizeof(metadata), {}};
  ffi::MetadataExtension question{sizeof(question), ffi::kMetadataExtension, nullptr, &metadata};
  ffi::CallFrame frame = EmptyFrame();
  frame.extension_start = &question;
  TORUS_RETURN_IF_ERROR(Take(call(&frame)));
  if (metadata.api_version.minor_version != Table().api_version.minor_version) {
    return InvalidArgument("The handler of '{}' has another version of the FFI.", target);
  }
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.handlers[std::string(target)] = call;
  return Status();
}

int64_t RegisterType(std::string_view name) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  return all.types.try_emplace(std::string(name), static_cast<int64_t>(all.types.size()) + 1)
      .first->second;
}

Status RunCall(const Call& call) {
  ffi::RawHandler handler = nullptr;
  {
    Registry& all = registry();
    const MutexLock lock(all.mutex);
    const auto found = all.handlers.find(call.target);
    if (found == all.handlers.end()) return NotFound("No handler is for '{}'.", call.target);
    handler = found->second;
  }
  ffi::ExecutionContext context{call.device, call.user_data};
  BufferList arguments(call.arguments), results(call.results);
  IntAttribute attribute(call.attributes);
  ffi::CallFrame frame = EmptyFrame();
  frame.context = &context;
  frame.arguments = arguments.get();
  frame.results = results.get();
  frame.attributes = attribute.get();
  const Status returned = Take(handler(&frame));
  const std::unique_ptr<ffi::Future> future(frame.future);
  if (!returned.ok() || future == nullptr) return returned;
  return future->signal->Await();
}

}  // namespace torus::tpu::fake
