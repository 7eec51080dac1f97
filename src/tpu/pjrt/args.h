// Argument structs of the PJRT C API, made and read by their size.
//
// The rule: a caller's struct is as long as its `struct_size` says and no longer, whatever our
// header knows; a struct that we pass has its size set and every byte that we do not set is zero,
// which PJRT defines as "not given".
#ifndef TORUS_TPU_PJRT_ARGS_H_
#define TORUS_TPU_PJRT_ARGS_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "tpu/pjrt/api.h"

namespace torus::pjrt {

// More than any argument struct of PJRT has (the longest of 0.115 is under 200 bytes). A struct
// that says this size satisfies an engine of any version.
inline constexpr size_t kAmpleSize = 512;

// The size that a struct says it has.
inline size_t StructSize(const void* args) {
  size_t size;
  std::memcpy(&size, args, sizeof(size));
  return size;
}

// The least size of the function's struct: what the oldest framework passes that Torus serves (PJRT
// 0.67, jax 0.6). It holds every input that the function cannot do without. Of functions that are
// newer than the header only the size is known to be there.
size_t LeastSize(size_t slot);

// Whether the caller's struct is long enough to hold `field`.
#define TORUS_PJRT_HAS(args, field) \
  ((args)->struct_size >=           \
   offsetof(std::remove_cvref_t<decltype(*(args))>, field) + sizeof((args)->field))

// A zeroed argument struct, for our own calls.
template <typename Args>
Args MakeArgs() {
  Args args{};
  args.struct_size = sizeof(Args);
  return args;
}

// A struct with zeros behind it, so that an engine that knows more fields finds them unset.
template <typename Args>
class Ample {
 public:
  Ample() : Ample(nullptr) {}
  // A copy of as much of the caller's struct as there is; `source` may be null.
  explicit Ample(const Args* source) {
    if (source != nullptr) std::memcpy(bytes_, source, std::min(source->struct_size, kAmpleSize));
    get()->struct_size = std::max(kAmpleSize, source == nullptr ? 0 : source->struct_size);
  }
  Ample(const Ample&) = delete;
  Ample& operator=(const Ample&) = delete;

  Args* get() { return reinterpret_cast<Args*>(bytes_); }
  Args* operator->() { return get(); }

 private:
  alignas(std::max_align_t) char bytes_[kAmpleSize] = {};
};

// Named values point into what they are made of, which must outlive them.
PJRT_NamedValue NamedInt(std::string_view name, int64_t value);
PJRT_NamedValue NamedInts(std::string_view name, const int64_t* values, size_t count);
PJRT_NamedValue NamedString(std::string_view name, std::string_view value);

}  // namespace torus::pjrt

#endif  // TORUS_TPU_PJRT_ARGS_H_
