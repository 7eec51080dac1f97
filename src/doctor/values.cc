#include "doctor/values.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>

namespace torus::doctor {
namespace {

std::optional<int64_t> NumberOf(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) return std::nullopt;
  const auto& text = found->second;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

void Multiples(Values& values) {
  const auto batch = NumberOf(values, "batch"), replicas = NumberOf(values, "replicas");
  if (!batch || !replicas || *replicas < 1 || *batch < 1 || *batch > INT64_MAX - *replicas) return;
  const int64_t below = *batch / *replicas * *replicas, above = below + *replicas;
  values["choices"] = below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
}

}  // namespace

void Derive(std::string_view derive, Values& values) {
  if (derive == "multiples") Multiples(values);
}

std::string_view DerivedBy(std::string_view derive) {
  return derive == "multiples" ? "choices" : std::string_view();
}

std::string Fill(std::string_view text, const Values& values) {
  std::string filled;
  while (!text.empty()) {
    const size_t open = text.find('{');
    filled += text.substr(0, open);
    if (open == text.npos) break;
    text.remove_prefix(open);
    const size_t close = text.find('}');
    const auto value =
        close == text.npos ? values.end() : values.find(std::string(text.substr(1, close - 1)));
    if (value == values.end()) {
      filled += '{';
      text.remove_prefix(1);
    } else {
      filled += value->second;
      text.remove_prefix(close + 1);
    }
  }
  return filled;
}

}  // namespace torus::doctor
