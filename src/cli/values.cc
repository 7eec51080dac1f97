// Reads flag values.
#include "cli/values.h"

#include <charconv>
#include <set>

#include "base/file.h"

namespace torus::cli {
namespace {

std::vector<std::string> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    if (std::string_view part = text.substr(0, end); !part.empty()) parts.emplace_back(part);
    if (end == text.npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

Result<int> ParseIndex(std::string_view text) {
  int index = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, index);
  if (error != std::errc() || next != end || index < 0)
    return InvalidArgument("--worker: \"{}\" is not a worker's number", text);
  return index;
}

// "1-3" or "2" as its first and last worker.
Result<std::pair<int, int>> ParseRange(const std::string& text) {
  const size_t dash = text.find('-');
  TORUS_ASSIGN_OR_RETURN(const int first, ParseIndex(text.substr(0, dash)));
  if (dash == text.npos) return std::pair(first, first);
  TORUS_ASSIGN_OR_RETURN(const int last, ParseIndex(text.substr(dash + 1)));
  if (last <= first) return InvalidArgument("--worker: \"{}\" is not a range such as 1-3", text);
  return std::pair(first, last);
}

}  // namespace

std::vector<std::string> ParseList(std::string_view text) {
  if (text.starts_with('^')) {
    const size_t end = text.find('^', 1);
    if (end != text.npos && end > 1) return Split(text.substr(end + 1), text.substr(1, end - 1));
  }
  return Split(text, ",");
}

Result<std::map<std::string, std::string>> ParseMap(const std::vector<std::string>& values) {
  std::map<std::string, std::string> map;
  for (const std::string& value : values) {
    for (const std::string& pair : ParseList(value)) {
      const size_t equals = pair.find('=');
      if (equals == 0 || equals == pair.npos)
        return InvalidArgument("\"{}\" is not KEY=VALUE", pair);
      map[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
  }
  return map;
}

Result<std::map<std::string, std::string>> ParseMetadataFiles(
    const std::vector<std::string>& values) {
  TORUS_ASSIGN_OR_RETURN(auto map, ParseMap(values));
  for (auto& [key, value] : map) {
    TORUS_ASSIGN_OR_RETURN(value, ReadFile(std::string(value)));
  }
  return map;
}

std::string NodeName::Parent() const {
  return fmt::format("projects/{}/locations/{}", project, zone);
}

std::string NodeName::ToString() const { return fmt::format("{}/nodes/{}", Parent(), node); }

Result<NodeName> ParseNodeName(std::string_view text, std::string_view project,
                               std::string_view zone) {
  if (text.find('/') == text.npos) {
    if (text.empty()) return InvalidArgument("a TPU VM needs a name");
    return NodeName{std::string(project), std::string(zone), std::string(text)};
  }
  const auto parts = Split(text, "/");
  if (parts.size() != 6 || parts[0] != "projects" ||
      (parts[2] != "locations" && parts[2] != "zones") || parts[4] != "nodes") {
    return InvalidArgument(
        "\"{}\" is not a TPU VM; give its name or projects/PROJECT/locations/ZONE/nodes/NAME",
        text);
  }
  return NodeName{parts[1], parts[3], parts[5]};
}

Result<std::vector<int>> ParseWorkers(std::string_view text, int count) {
  std::set<int> workers;
  if (text == "all" || text == "ALL") {
    for (int i = 0; i < count; ++i) workers.insert(i);
  }
  for (const std::string& part : workers.empty() ? Split(text, ",") : std::vector<std::string>()) {
    TORUS_ASSIGN_OR_RETURN(const auto range, ParseRange(part));
    if (range.second >= count) {
      return InvalidArgument(
          "worker {} does not exist; this node has {}", range.second,
          count == 1 ? "one worker, 0" : fmt::format("workers 0 to {}", count - 1));
    }
    for (int i = range.first; i <= range.second; ++i) workers.insert(i);
  }
  if (workers.empty()) return InvalidArgument("--worker: give a number, a list, a range or all");
  return std::vector<int>(workers.begin(), workers.end());
}

std::pair<std::string, std::string> SplitUser(std::string_view text) {
  const size_t at = text.find('@');
  if (at == text.npos) return {"", std::string(text)};
  return {std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
}

std::string Basename(std::string_view name) {
  return std::string(name.substr(name.find_last_of('/') + 1));
}

}  // namespace torus::cli
