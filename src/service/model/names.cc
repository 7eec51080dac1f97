#include "service/model/names.h"

#include <algorithm>
#include <vector>

namespace torus::model {
namespace {

constexpr size_t kMaxLabel = 63;

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find('/', begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

// Project ids may hold a domain ("example.com:p"); numbers are accepted as upstream accepts them.
bool IsProject(std::string_view id) {
  return !id.empty() && id.size() <= kMaxLabel && std::ranges::all_of(id, [](char c) {
    return IsLower(c) || IsDigit(c) || c == '-' || c == '.' || c == ':';
  });
}

bool IsZone(std::string_view id) {
  return !id.empty() && id.size() <= kMaxLabel &&
         std::ranges::all_of(id, [](char c) { return IsLower(c) || IsDigit(c) || c == '-'; });
}

// Label text: lowercase letters (UTF-8 beyond ASCII passes), digits, '_' and '-'.
bool IsLabelText(std::string_view text) {
  return text.size() <= kMaxLabel && std::ranges::all_of(text, [](char c) {
           return IsLower(c) || IsDigit(c) || c == '-' || c == '_' ||
                  static_cast<unsigned char>(c) >= 0x80;
         });
}

}  // namespace

std::string Location::prefix(std::string_view collection) const {
  return all_zones() ? fmt::format("projects/{}/locations/", project)
                     : fmt::format("{}/{}/", name(), collection);
}

Result<std::string> ParseProject(std::string_view name) {
  const auto parts = Split(name);
  if (parts.size() == 2 && parts[0] == "projects" && IsProject(parts[1]))
    return std::string(parts[1]);
  return InvalidArgument("Invalid resource name \"{}\": expected \"projects/PROJECT\".", name);
}

Result<Location> ParseLocation(std::string_view name) {
  const auto parts = Split(name);
  if (parts.size() == 4 && parts[0] == "projects" && IsProject(parts[1]) &&
      parts[2] == "locations" && IsZone(parts[3]))
    return Location{std::string(parts[1]), std::string(parts[3])};
  return InvalidArgument(
      "Invalid resource name \"{}\": expected \"projects/PROJECT/locations/ZONE\".", name);
}

Result<ResourceName> ParseResource(std::string_view name, std::string_view collection) {
  const auto parts = Split(name);
  if (parts.size() == 6 && parts[0] == "projects" && IsProject(parts[1]) &&
      parts[2] == "locations" && IsZone(parts[3]) && parts[4] == collection && !parts[5].empty())
    return ResourceName{{std::string(parts[1]), std::string(parts[3])},
                        std::string(collection),
                        std::string(parts[5])};
  return InvalidArgument(
      "Invalid resource name \"{}\": expected \"projects/PROJECT/locations/ZONE/{}/ID\".", name,
      collection);
}

Status CheckNodeId(std::string_view id) {
  if (id.empty())
    return InvalidArgument(
        "Cloud TPU received a bad request. A node id is required: set node_id (nodeId).");
  const bool valid =
      id.size() <= kMaxLabel && IsLower(id.front()) && id.back() != '-' &&
      std::ranges::all_of(id, [](char c) { return IsLower(c) || IsDigit(c) || c == '-'; });
  if (valid) return {};
  return InvalidArgument(
      "Cloud TPU received a bad request. Invalid node id \"{}\": it must be 1 to {} lowercase "
      "letters, digits or hyphens, start with a letter and not end with a hyphen.",
      id, kMaxLabel);
}

Status CheckLabel(std::string_view key, std::string_view value) {
  const bool starts_well =
      !key.empty() && (IsLower(key.front()) || static_cast<unsigned char>(key.front()) >= 0x80);
  if (!starts_well || !IsLabelText(key))
    return InvalidArgument(
        "Invalid label key \"{}\": it must be 1 to {} lowercase letters, digits, underscores or "
        "hyphens and start with a letter.",
        key, kMaxLabel);
  if (!IsLabelText(value))
    return InvalidArgument(
        "Invalid value \"{}\" of label \"{}\": at most {} lowercase letters, digits, underscores "
        "or hyphens.",
        value, key, kMaxLabel);
  return {};
}

int64_t ProjectNumber(std::string_view project) {
  if (!project.empty() && project.size() <= 18 && std::ranges::all_of(project, IsDigit))
    return std::stoll(std::string(project));
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (char c : project) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return 100'000'000'000 + static_cast<int64_t>(hash % 900'000'000'000);
}

}  // namespace torus::model
