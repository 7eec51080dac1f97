// Names of the functions, and named values.
#include "tpu/pjrt/args.h"

namespace torus::pjrt {
namespace {

PJRT_NamedValue Named(std::string_view name, PJRT_NamedValue_Type type, size_t size) {
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = name.data();
  value.name_size = name.size();
  value.type = type;
  value.value_size = size;
  return value;
}

}  // namespace

const char* FunctionName(size_t slot) {
  static constexpr const char* kNames[] = {
#define X(name) "PJRT_" #name,
#include "tpu/pjrt/header_functions.inc"
#include "tpu/pjrt/later_functions.inc"
#undef X
  };
  static_assert(std::size(kNames) == kSlots);
  return slot < kSlots ? kNames[slot] : "an unknown PJRT function";
}

PJRT_NamedValue NamedInt(std::string_view name, int64_t value) {
  PJRT_NamedValue named = Named(name, PJRT_NamedValue_kInt64, 1);
  named.int64_value = value;
  return named;
}

PJRT_NamedValue NamedInts(std::string_view name, const int64_t* values, size_t count) {
  PJRT_NamedValue named = Named(name, PJRT_NamedValue_kInt64List, count);
  named.int64_array_value = values;
  return named;
}

PJRT_NamedValue NamedString(std::string_view name, std::string_view value) {
  PJRT_NamedValue named = Named(name, PJRT_NamedValue_kString, value.size());
  named.string_value = value.data();
  return named;
}

}  // namespace torus::pjrt
