// Looking a single field up.
#include "tpu/program/wire.h"

namespace torus::program::wire {

std::optional<std::string_view> FindBytes(std::string_view message, protozero::pbf_tag_type field) {
  const auto all = FindAllBytes(message, field);
  return all.empty() ? std::nullopt : std::optional(all.back());
}

std::optional<int64_t> FindInt(std::string_view message, protozero::pbf_tag_type field) {
  std::optional<int64_t> found;
  Read(message, nullptr, [&](protozero::pbf_reader& reader) {
    if (!Is(reader, field, Type::varint)) return false;
    found = reader.get_int64();
    return true;
  });
  return found;
}

std::vector<std::string_view> FindAllBytes(std::string_view message,
                                           protozero::pbf_tag_type field) {
  std::vector<std::string_view> found;
  Read(message, nullptr, [&](protozero::pbf_reader& reader) {
    if (!Is(reader, field, Type::length_delimited)) return false;
    found.push_back(View(reader.get_view()));
    return true;
  });
  return found;
}

std::vector<int64_t> FindInts(std::string_view message, protozero::pbf_tag_type field) {
  std::vector<int64_t> found;
  Read(message, nullptr, [&](protozero::pbf_reader& reader) {
    return reader.tag() == field && TakeInts(reader, &found);
  });
  return found;
}

std::string Without(std::string_view message, protozero::pbf_tag_type field) {
  std::string kept;
  Read(message, &kept, [&](protozero::pbf_reader& reader) {
    if (reader.tag() != field) return false;
    reader.skip();
    return true;
  });
  return kept;
}

}  // namespace torus::program::wire
