// XLA's foreign function interface: how code of ours runs as an operation of an engine's program.
//
// A handler is a C function that the engine calls with a CallFrame when a custom call of its name
// runs. The structs are those of openxla/xla's xla/ffi/api/c_api.h (0.3), as far as Torus reads
// them: each begins with its size, and fields are only ever appended. Registering goes through the
// engine's PJRT FFI extension (pjrt_c_api_ffi_extension.h, version 3).
//
// Thread-safety: all functions, from any thread; a CallFrame is its handler's alone while it runs.
#ifndef TORUS_TPU_PJRT_FFI_H_
#define TORUS_TPU_PJRT_FFI_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "tpu/pjrt/engine.h"

namespace torus::pjrt::ffi {

struct Error;             // the engine's
struct ExecutionContext;  // the engine's
struct Api;               // the engine's table of functions
struct Future;            // the engine's

struct Buffer {
  size_t struct_size;
  void* extension_start;
  int32_t dtype;  // xla.PrimitiveType
  void* data;     // dense, in the layout that the program was compiled with
  int64_t rank;
  const int64_t* dims;

  std::span<const int64_t> dimensions() const { return {dims, static_cast<size_t>(rank)}; }
  // Bytes of all elements, `element_bytes` each.
  size_t bytes(size_t element_bytes) const;
};

inline constexpr int32_t kToken = 17;  // the dtype of a token, which has no data

struct Buffers {
  size_t struct_size;
  void* extension_start;
  int64_t size;
  int32_t* types;
  Buffer** buffers;
};

struct ByteSpan {
  const char* data;
  size_t size;
};

struct Scalar {
  int32_t dtype;
  void* value;
};

struct Array {
  int32_t dtype;
  size_t size;
  void* data;
};

struct Attributes {
  size_t struct_size;
  void* extension_start;
  int64_t size;
  int32_t* types;
  ByteSpan** names;
  void** values;
};

enum class Stage : int32_t { kInstantiate = 0, kPrepare = 1, kInitialize = 2, kExecute = 3 };

struct CallFrame {
  size_t struct_size;
  void* extension_start;
  const Api* api;
  ExecutionContext* context;
  Stage stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
  Future* future;  // out: ends the call later
};

// What a handler does with a call. An error fails the program's run, with its message.
using Function = Status (*)(CallFrame& call);

// The end of a call that goes on after its handler has returned. The call's buffers stay valid
// until Finish; the CallFrame itself does not. Moved, not copied; Finish is called once, on any
// thread.
class Completion {
 public:
  // Makes the call end with Finish, if its handler returns OK. UNIMPLEMENTED on an older engine.
  static Result<Completion> Defer(CallFrame& call);

  // Ends the call: the program goes on, or its run fails with the error.
  void Finish(const Status& status);

 private:
  Completion(const Api* api, Future* future) : api_(api), future_(future) {}

  const Api* api_;
  Future* future_;
};

// The attribute of that name in the custom call's backend_config, an i64.
std::optional<int64_t> FindInt(const CallFrame& call, std::string_view name);
// The same of an array<i64>; it lives as long as the program.
std::span<const int64_t> FindInts(const CallFrame& call, std::string_view name);
// The user data of that type that the run was given (AddUserData); null where it was given none.
void* FindUserData(const CallFrame& call, int64_t type_id);
// The number of the device that runs the call; none where the engine is too old to tell.
std::optional<int> DeviceOrdinal(const CallFrame& call);

// The C function that the engine calls, around `kFunction`.
void* Answer(CallFrame* call, Function function);
template <Function kFunction>
void* Handler(CallFrame* call) {
  return Answer(call, kFunction);
}
using RawHandler = void* (*)(CallFrame*);

// Registers a handler for custom calls of typed-FFI version to `target`. UNIMPLEMENTED where the
// engine has no FFI extension. The engine keeps it for ever.
Status Register(Engine& engine, std::string_view target, RawHandler handler);

// The id of a type of user data, made when it is first asked for.
Result<int64_t> RegisterType(Engine& engine, std::string_view name);

// Gives runs with this context the data, which must outlive them.
Status AddUserData(Engine& engine, PJRT_ExecuteContext* context, int64_t type_id, void* data);

}  // namespace torus::pjrt::ffi

#endif  // TORUS_TPU_PJRT_FFI_H_
