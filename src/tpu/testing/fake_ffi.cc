// XLA's table of FFI functions over Signals, and call frames made of arrays.
#include "tpu/testing/fake_ffi.h"

#include <algorithm>
#include <deque>
#include <sstream>

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

// The attributes of Torus's calls, as a backend_config has them: "{channel = 3 : i64}", and
// "{of = array<i64: 1, 2>}".
class AttributeList {
 public:
  explicit AttributeList(std::string_view text) {
    constexpr std::string_view kIs = " = ", kArrayBegins = "array<i64:";
    while (text.starts_with('{') || text.starts_with(", ")) {
      text.remove_prefix(text.starts_with('{') ? 1 : 2);
      const size_t is = text.find(kIs);
      if (is == text.npos) break;
      Entry& entry = entries_.emplace_back();
      entry.name = text.substr(0, is);
      text.remove_prefix(is + kIs.size());
      entry.is_array = text.starts_with(kArrayBegins);
      if (entry.is_array) text.remove_prefix(kArrayBegins.size());
      const size_t end = text.find_first_of(entry.is_array ? ">" : ",}");
      ReadNumbers(text.substr(0, end), entry.numbers);
      text.remove_prefix(std::min(text.size(), end + (entry.is_array ? 1 : 0)));
    }
    for (Entry& entry : entries_) Point(entry);
  }
  AttributeList(const AttributeList&) = delete;

  ffi::Attributes get() {
    return {sizeof(ffi::Attributes), nullptr,       static_cast<int64_t>(entries_.size()),
            kinds_.data(),           names_.data(), values_.data()};
  }

 private:
  static constexpr int32_t kArray = 1, kScalar = 3, kS64 = 5;
  struct ArrayValue {
    int32_t dtype;
    size_t size;
    void* data;
  };
  struct Entry {
    std::string name;
    std::vector<int64_t> numbers;
    bool is_array = false;
    ffi::ByteSpan span{};
    ffi::Scalar scalar{};
    ArrayValue array{};
  };

  static void ReadNumbers(std::string_view text, std::vector<int64_t>& numbers) {
    std::istringstream stream{std::string(text)};
    for (int64_t number = 0; stream >> number; stream.ignore(1, ',')) numbers.push_back(number);
  }

  void Point(Entry& entry) {
    entry.span = {entry.name.data(), entry.name.size()};
    entry.scalar = {kS64, entry.numbers.data()};
    entry.array = {kS64, entry.numbers.size(), entry.numbers.data()};
    kinds_.push_back(entry.is_array ? kArray : kScalar);
    names_.push_back(&entry.span);
    values_.push_back(entry.is_array ? static_cast<void*>(&entry.array) : &entry.scalar);
  }

  std::deque<Entry> entries_;
  std::vector<int32_t> kinds_;
  std::vector<ffi::ByteSpan*> names_;
  std::vector<void*> values_;
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
  AttributeList attributes(call.attributes);
  ffi::CallFrame frame = EmptyFrame();
  frame.context = &context;
  frame.arguments = arguments.get();
  frame.results = results.get();
  frame.attributes = attributes.get();
  const Status returned = Take(handler(&frame));
  const std::unique_ptr<ffi::Future> future(frame.future);
  if (!returned.ok() || future == nullptr) return returned;
  return future->signal->Await();
}

}  // namespace torus::tpu::fake
