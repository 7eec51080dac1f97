// Protobuf's wire form, field by field: what a reader does not know it keeps byte for byte.
//
// XLA's messages have hundreds of fields and grow with each release. A reader here takes the few it
// names and leaves all others as the bytes they came in. Thread-safety: pure functions.
// Errors: readers throw protozero::exception, which the room's public functions catch.
#ifndef TORUS_TPU_PROGRAM_WIRE_H_
#define TORUS_TPU_PROGRAM_WIRE_H_

#include <cstdint>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace torus::program::wire {

using Type = protozero::pbf_wire_type;

inline std::string_view View(protozero::data_view view) { return {view.data(), view.size()}; }

// The field under the reader, of the wire type that its message declares; another wire type is what
// protobuf calls an unknown field.
inline bool Is(const protozero::pbf_reader& reader, protozero::pbf_tag_type field, Type type) {
  return reader.tag() == field && reader.has_wire_type(type);
}

// Calls `take(reader)` at each field. One that it does not read (it returns false, the reader
// untouched) is appended to `others` as it came, if that is not null.
template <typename Take>
void Read(std::string_view message, std::string* others, Take take) {
  protozero::pbf_reader reader(message.data(), message.size());
  const char* begin = message.data();
  while (reader.next()) {
    const bool taken = take(reader);
    if (!taken) reader.skip();
    const char* end = reader.data().data();
    if (!taken && others != nullptr) others->append(begin, end);
    begin = end;
  }
}

// Appends a repeated integer's values, packed or not. False where the field is of another type.
inline bool TakeInts(protozero::pbf_reader& reader, std::vector<int64_t>* values) {
  if (reader.has_wire_type(Type::length_delimited)) {
    const auto packed = reader.get_packed_int64();
    values->insert(values->end(), packed.begin(), packed.end());
    return true;
  }
  if (!reader.has_wire_type(Type::varint)) return false;
  values->push_back(reader.get_int64());
  return true;
}

inline void AddInts(protozero::pbf_writer& writer, protozero::pbf_tag_type field,
                    const std::vector<int64_t>& values) {
  writer.add_packed_int64(field, values.begin(), values.end());
}

// proto3 leaves a zero out.
inline void AddInt(protozero::pbf_writer& writer, protozero::pbf_tag_type field, int64_t value) {
  if (value != 0) writer.add_int64(field, value);
}

inline void AddBytes(protozero::pbf_writer& writer, protozero::pbf_tag_type field,
                     std::string_view value) {
  if (!value.empty()) writer.add_bytes(field, value.data(), value.size());
}

// The last value of a field of the message: protobuf's rule. Nothing where there is none.
std::optional<std::string_view> FindBytes(std::string_view message, protozero::pbf_tag_type field);
std::optional<int64_t> FindInt(std::string_view message, protozero::pbf_tag_type field);
// Each value of a repeated field, in order.
std::vector<std::string_view> FindAllBytes(std::string_view message, protozero::pbf_tag_type field);
std::vector<int64_t> FindInts(std::string_view message, protozero::pbf_tag_type field);

// The message without the field.
std::string Without(std::string_view message, protozero::pbf_tag_type field);

}  // namespace torus::program::wire

#endif  // TORUS_TPU_PROGRAM_WIRE_H_
