// Reads xla/pjrt/proto/compile_options.proto's wire form with protozero.
#include "tpu/device/compile_options.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace torus::tpu {
namespace {

// CompileOptionsProto.env_option_overrides: map<string, OptionOverrideProto>; an entry's key is 1.
constexpr protozero::pbf_tag_type kOverrides = 7;
constexpr protozero::pbf_tag_type kKey = 1;

// What the names of the TPU compiler's and runtime's own flags begin with.
constexpr std::string_view kTpuPrefixes[] = {"xla_tpu_",   "xla_jf_", "xla_sc_",  "xla_msa_",
                                             "megascale_", "tpu_",    "deepsea_", "jellyfish_"};

bool IsTpuOption(std::string_view name) {
  return std::ranges::any_of(kTpuPrefixes,
                             [name](auto prefix) { return name.starts_with(prefix); });
}

bool IsTpuOverride(const protozero::data_view& entry) {
  protozero::pbf_reader reader(entry);
  if (!reader.next(kKey, protozero::pbf_wire_type::length_delimited)) return false;
  const auto key = reader.get_view();
  return IsTpuOption({key.data(), key.size()});
}

}  // namespace

std::optional<std::string> WithoutTpuOptions(std::string_view compile_options) {
  std::string kept;
  bool dropped = false;
  try {
    protozero::pbf_reader reader(compile_options.data(), compile_options.size());
    const char* begin = compile_options.data();
    while (reader.next()) {
      bool drop = false;
      if (reader.tag() == kOverrides &&
          reader.has_wire_type(protozero::pbf_wire_type::length_delimited)) {
        drop = IsTpuOverride(reader.get_view());
      } else {
        reader.skip();
      }
      const char* end = reader.data().data();
      if (!drop) kept.append(begin, end);
      dropped |= drop;
      begin = end;
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return dropped ? std::optional(kept) : std::nullopt;
}

}  // namespace torus::tpu
