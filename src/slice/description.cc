// The text form of a slice's description: one table of keys drives both directions.
#include "slice/description.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace torus::slice {
namespace {

constexpr std::string_view kBlank = " \t\r";

// Upstream's keys first, then ours. The order is the order of the lines.
struct TextKey {
  std::string_view key;
  std::string Description::*field;
};
constexpr TextKey kTextKeys[] = {
    {"ACCELERATOR_TYPE", &Description::accelerator_type},
    {"TOPOLOGY", &Description::topology},
    {"CHIPS_PER_HOST_BOUNDS", &Description::chips_per_host},
    {"HOST_BOUNDS", &Description::hosts},
    {"TPU_CHIPS_PER_PROCESS_BOUNDS", &Description::chips_per_host},
    {"TPU_PROCESS_BOUNDS", &Description::hosts},
    {"NODE_ID", &Description::node_id},
    {"ZONE", &Description::zone},
    {"TORUS_NODE_UID", &Description::node_uid},
    {"TORUS_RUNTIME_VERSION", &Description::runtime_version},
};
constexpr std::string_view kWorkerId = "WORKER_ID";
constexpr std::string_view kWorkerAddresses = "TORUS_WORKER_ADDRESSES";
constexpr std::string_view kMemoryLimit = "TORUS_MEMORY_LIMIT_BYTES";

std::string_view Trim(std::string_view text) {
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// The format has no escapes, so what would end a value or a line is left out of it.
std::string OneLine(std::string_view value) {
  std::string clean;
  std::ranges::copy_if(value, std::back_inserter(clean),
                       [](char c) { return c != '\'' && c != '\n' && c != '\r'; });
  return clean;
}

void AppendLine(std::string& text, std::string_view key, std::string_view value) {
  if (!value.empty()) text += fmt::format("{}: '{}'\n", key, OneLine(value));
}

std::vector<std::string> SplitAtCommas(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    if (const auto part = Trim(list.substr(0, comma)); !part.empty()) parts.emplace_back(part);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return parts;
}

template <typename Integer>
Status ParseCount(int line, std::string_view key, std::string_view value, Integer& count) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < 0) {
    return InvalidArgument("line {}: {} is '{}'; it must be a whole number, 0 or more", line, key,
                           value);
  }
  return Status();
}

// A line's key and what stands between its quotes.
struct Line {
  std::string_view key;
  std::string_view value;
};

Result<Line> ParseLine(int number, std::string_view text) {
  const auto colon = text.find(':');
  if (colon == text.npos || Trim(text.substr(0, colon)).empty()) {
    return InvalidArgument("line {}: '{}' lacks a key; a line is KEY: 'value'", number, text);
  }
  const Line line{Trim(text.substr(0, colon)), Trim(text.substr(colon + 1))};
  const auto& value = line.value;
  if (value.size() < 2 || value.front() != '\'' || value.back() != '\'') {
    return InvalidArgument("line {}: the value of {} lacks its quotes; a line is KEY: 'value'",
                           number, line.key);
  }
  const auto inside = value.substr(1, value.size() - 2);
  if (inside.find_first_of("'\r") != inside.npos) {
    return InvalidArgument("line {}: the value of {} has a quote or a line's end in it; it may not",
                           number, line.key);
  }
  return Line{line.key, inside};
}

Status SetField(int number, const Line& line, Description& description) {
  for (const auto& [key, field] : kTextKeys) {
    if (line.key == key) description.*field = line.value;
  }
  if (line.key == kWorkerAddresses) description.worker_addresses = SplitAtCommas(line.value);
  if (line.key == kWorkerId) {
    return ParseCount(number, line.key, line.value, description.worker_id);
  }
  if (line.key == kMemoryLimit) {
    return ParseCount(number, line.key, line.value, description.memory_limit_bytes);
  }
  return Status();
}

}  // namespace

std::string Format(const Description& description) {
  std::string text;
  for (const auto& [key, field] : kTextKeys) AppendLine(text, key, description.*field);
  AppendLine(text, kWorkerId, std::to_string(description.worker_id));
  AppendLine(text, kWorkerAddresses,
             fmt::format("{}", fmt::join(description.worker_addresses, ",")));
  AppendLine(text, kMemoryLimit, std::to_string(description.memory_limit_bytes));
  return text;
}

Result<Description> Parse(std::string_view text) {
  Description description;
  std::set<std::string_view> seen;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto row = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.empty()) continue;
    TORUS_ASSIGN_OR_RETURN(const Line line, ParseLine(number, row));
    if (!seen.insert(line.key).second) {
      return InvalidArgument("line {}: {} stands twice", number, line.key);
    }
    TORUS_RETURN_IF_ERROR(SetField(number, line, description));
  }
  if (description.accelerator_type.empty()) {
    return InvalidArgument("no line says ACCELERATOR_TYPE, such as ACCELERATOR_TYPE: 'v2-8'");
  }
  return description;
}

}  // namespace torus::slice
