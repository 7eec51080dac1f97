// Reads xla/pjrt/proto/compile_options.proto's wire form with protozero.
#include "tpu/device/compile_options.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tpu/device/tpu_options.h"
#include "tpu/program/wire.h"

namespace torus::tpu {
namespace {

namespace wire = program::wire;
using wire::Type;

// CompileOptionsProto; env_option_overrides is a map<string, OptionOverrideProto>.
constexpr protozero::pbf_tag_type kBuildOptions = 3, kPortable = 4, kOverrides = 7, kKey = 1,
                                  kValue = 2;
// ExecutableBuildOptionsProto
constexpr protozero::pbf_tag_type kDebugOptions = 3, kNumReplicas = 4, kNumPartitions = 5,
                                  kDeviceAssignment = 9;

OptionValue ReadValue(std::string_view message) {
  OptionValue value;
  wire::Read(message, nullptr, [&value](protozero::pbf_reader& reader) {
    if (wire::Is(reader, 1, Type::length_delimited)) {
      value = reader.get_string();
    } else if (wire::Is(reader, 2, Type::varint)) {
      value = reader.get_bool();
    } else if (wire::Is(reader, 3, Type::varint)) {
      value = reader.get_int64();
    } else if (wire::Is(reader, 4, Type::fixed64)) {
      value = reader.get_double();
    } else {
      return false;
    }
    return true;
  });
  return value;
}

struct Override {
  std::string_view name;
  OptionValue value;
};

Override ReadOverride(std::string_view entry) {
  return {wire::FindBytes(entry, kKey).value_or(""),
          ReadValue(wire::FindBytes(entry, kValue).value_or(""))};
}

// A message's fields, of which those with a length (maps, lists that are sets, texts) are sorted.
std::string Sorted(std::string_view message) {
  std::string text;
  std::vector<std::pair<protozero::pbf_tag_type, std::string_view>> entries;
  wire::Read(message, &text, [&entries](protozero::pbf_reader& reader) {
    if (!reader.has_wire_type(Type::length_delimited)) return false;
    const auto tag = reader.tag();
    entries.emplace_back(tag, wire::View(reader.get_view()));
    return true;
  });
  std::ranges::sort(entries);
  protozero::pbf_writer writer(text);
  for (const auto& [tag, entry] : entries) writer.add_bytes(tag, entry.data(), entry.size());
  return text;
}

}  // namespace

Result<std::optional<std::string>> WithoutTpuOptions(std::string_view compile_options) {
  std::string kept;
  bool dropped = false;
  Status wrong;
  try {
    wire::Read(compile_options, &kept, [&](protozero::pbf_reader& reader) {
      if (!wire::Is(reader, kOverrides, Type::length_delimited)) return false;
      auto ahead = reader;  // an entry that stays must be left unread
      const auto option = ReadOverride(wire::View(ahead.get_view()));
      if (!IsTpuOption(option.name)) return false;
      if (wrong.ok()) wrong = CheckTpuOption(option.name, option.value);
      reader = ahead;
      dropped = true;
      return true;
    });
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  TORUS_RETURN_IF_ERROR(wrong);
  if (!dropped) return std::nullopt;
  return kept;
}

Extent ExtentOf(std::string_view compile_options) {
  try {
    const auto build = wire::FindBytes(compile_options, kBuildOptions).value_or("");
    return {.replicas = wire::FindInt(build, kNumReplicas).value_or(1),
            .partitions = wire::FindInt(build, kNumPartitions).value_or(1)};
  } catch (const protozero::exception&) {
    return {};
  }
}

// A later scalar overrides an earlier one.
std::string ForAnyDevice(std::string_view compile_options) {
  auto build = wire::Without(wire::FindBytes(compile_options, kBuildOptions).value_or(""),
                             kDeviceAssignment);
  protozero::pbf_writer building(build);
  building.add_int64(kNumReplicas, 1);
  building.add_int64(kNumPartitions, 1);
  auto options = wire::Without(compile_options, kBuildOptions);
  protozero::pbf_writer writer(options);
  writer.add_message(kBuildOptions, build);
  writer.add_bool(kPortable, true);
  return options;
}

std::string ComparableOptions(std::string_view compile_options) {
  try {
    const auto build = wire::FindBytes(compile_options, kBuildOptions).value_or("");
    const auto debug = wire::FindBytes(build, kDebugOptions).value_or("");
    auto overrides = wire::FindAllBytes(compile_options, kOverrides);
    std::ranges::sort(overrides);
    std::string text;
    protozero::pbf_writer writer(text);
    writer.add_string(1, wire::Without(wire::Without(compile_options, kBuildOptions), kOverrides));
    writer.add_string(2, wire::Without(build, kDebugOptions));
    writer.add_string(3, Sorted(debug));
    for (const auto entry : overrides) writer.add_bytes(4, entry.data(), entry.size());
    return text;
  } catch (const protozero::exception&) {
    return std::string(compile_options);
  }
}

}  // namespace torus::tpu
