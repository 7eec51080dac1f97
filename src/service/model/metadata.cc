#include "service/model/metadata.h"

#include <algorithm>
#include <cctype>

namespace torus::model {
namespace {

constexpr size_t kMaxKey = 128;
constexpr size_t kMaxValue = 256 << 10;
constexpr size_t kMaxAll = 512 << 10;

bool IsKey(std::string_view key) {
  return !key.empty() && key.size() <= kMaxKey && std::ranges::all_of(key, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
}

}  // namespace

Status CheckMetadata(const google::protobuf::Map<std::string, std::string>& metadata) {
  size_t all = 0;
  for (const auto& [key, value] : metadata) {
    if (!IsKey(key))
      return InvalidArgument(
          "Invalid metadata key \"{}\": 1 to {} letters, digits, hyphens or underscores.", key,
          kMaxKey);
    if (value.size() > kMaxValue)
      return InvalidArgument("The value of metadata key \"{}\" has {} bytes; at most {}.", key,
                             value.size(), kMaxValue);
    all += key.size() + value.size();
  }
  if (all > kMaxAll)
    return InvalidArgument("The metadata has {} bytes in all; at most {}.", all, kMaxAll);
  return {};
}

}  // namespace torus::model
