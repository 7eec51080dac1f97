#include "service/gateway/path_template.h"

namespace torus::gateway {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace

std::string PercentDecode(std::string_view text, bool keep_slashes) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low < 0) {
      decoded += text[i];
      continue;
    }
    const char c = static_cast<char>(high * 16 + low);
    if (c == '/' && keep_slashes)
      decoded += text.substr(i, 3);
    else
      decoded += c;
    i += 2;
  }
  return decoded;
}

Result<PathTemplate> PathTemplate::Parse(std::string_view text) {
  const auto wrong = [&](size_t at) {
    return InvalidArgument("path template \"{}\" is wrong at character {}", text, at);
  };
  PathTemplate result;
  if (!text.starts_with('/')) return wrong(0);
  // The verb's colon is the one after the last slash that is outside braces.
  const size_t close = text.rfind('}');
  const size_t colon = text.find(':', close == std::string_view::npos ? 0 : close);
  std::string_view path = text.substr(1);
  if (colon != std::string_view::npos) {
    result.verb_ = text.substr(colon + 1);
    if (result.verb_.empty()) return wrong(colon);
    path = text.substr(1, colon - 1);
  }
  const auto add_segments = [&](std::string_view part) {
    for (std::string_view segment : Split(part, '/')) {
      const bool wildcard = segment == "*" || segment == "**";
      const bool literal = segment.find_first_of("*{}") == std::string_view::npos;
      if (segment.empty() || !(wildcard || literal)) return false;
      if (!result.segments_.empty() && result.segments_.back() == "**") return false;
      result.segments_.emplace_back(segment);
    }
    return true;
  };
  while (!path.empty()) {
    const auto at = static_cast<size_t>(path.data() - text.data());
    if (path.starts_with('{')) {
      const size_t end = path.find('}');
      if (end == std::string_view::npos) return wrong(at);
      const std::string_view inside = path.substr(1, end - 1);
      const size_t equals = inside.find('=');
      const size_t begin = result.segments_.size();
      const std::string_view pattern =
          equals == std::string_view::npos ? "*" : inside.substr(equals + 1);
      if (inside.empty() || equals == 0 || !add_segments(pattern)) return wrong(at);
      result.variables_.push_back(
          {std::string(inside.substr(0, equals)), begin, result.segments_.size()});
      path.remove_prefix(end + 1);
    } else {
      const size_t end = std::min(path.find("/{"), path.size());
      if (!add_segments(path.substr(0, end))) return wrong(at);
      path.remove_prefix(end);
    }
    if (path.empty()) break;
    if (!path.starts_with('/') || path.size() == 1)
      return wrong(static_cast<size_t>(path.data() - text.data()));
    path.remove_prefix(1);
  }
  return result;
}

std::optional<PathTemplate::Bindings> PathTemplate::Match(std::string_view path) const {
  if (!path.starts_with('/')) return std::nullopt;
  path.remove_prefix(1);
  if (!verb_.empty()) {
    if (path.size() <= verb_.size() || !path.ends_with(verb_)) return std::nullopt;
    path.remove_suffix(verb_.size());
    if (path.back() != ':') return std::nullopt;
    path.remove_suffix(1);
  }
  const auto parts = Split(path, '/');
  const bool open_ended = !segments_.empty() && segments_.back() == "**";
  const size_t fixed = segments_.size() - (open_ended ? 1 : 0);
  if (open_ended ? parts.size() < fixed : parts.size() != fixed) return std::nullopt;
  for (size_t i = 0; i < fixed; ++i) {
    if (segments_[i] == "*" ? parts[i].empty() : segments_[i] != parts[i]) return std::nullopt;
  }
  // Without a verb in the template, a colon in the last segment is another method's verb.
  if (verb_.empty() && parts.back().find(':') != std::string_view::npos) return std::nullopt;
  Bindings bindings;
  for (const Variable& variable : variables_) {
    const bool several = variable.end - variable.begin > 1 || segments_[variable.begin] == "**";
    const size_t end = open_ended && variable.end == segments_.size() ? parts.size() : variable.end;
    std::string value;
    for (size_t i = variable.begin; i < end; ++i) {
      if (i > variable.begin) value += '/';
      value += PercentDecode(parts[i], several);
    }
    bindings.emplace_back(variable.field_path, std::move(value));
  }
  return bindings;
}

}  // namespace torus::gateway
