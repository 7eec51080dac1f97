// Parses --format and prints by it.
#include "cli/format.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>

namespace torus::cli {
namespace {

constexpr std::string_view kValid =
    "valid formats: json, yaml, table, none, value(KEY, …), table(KEY:label=TITLE, …)";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

// Splits at `separator` outside parentheses.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == separator && depth == 0)) {
      parts.push_back(Trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  return parts;
}

// "acceleratorType" -> "ACCELERATOR_TYPE", as gcloud titles a column.
std::string Title(std::string_view key) {
  std::string title;
  for (const char c : key) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper && !title.empty()) title += '_';
    title += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return title;
}

// Takes ".basename()" or ".segment(N)" off the end of a key.
bool TakeTransform(std::string_view& key, Column& column) {
  if (!key.ends_with(')')) return true;
  const size_t open = key.rfind('(');
  const size_t dot = open == key.npos ? key.npos : key.rfind('.', open);
  if (dot == key.npos) return false;
  const std::string_view name = key.substr(dot + 1, open - dot - 1);
  const std::string_view argument = key.substr(open + 1, key.size() - open - 2);
  key = key.substr(0, dot);
  if (name == "basename" && argument.empty()) {
    column.transform = Column::Transform::kBasename;
    return true;
  }
  if (name != "segment") return false;
  column.transform = Column::Transform::kSegment;
  const char* const end = argument.data() + argument.size();
  const auto [next, error] = std::from_chars(argument.data(), end, column.segment);
  return error == std::errc() && next == end;
}

// "networkEndpoints[0].ipAddress" -> its three steps. An empty index, [], is the whole list.
bool TakePath(std::string_view key, Column& column) {
  for (std::string_view step : Split(key, '.')) {
    const size_t open = step.find('[');
    column.path.emplace_back(step.substr(0, open));
    if (column.path.back().empty()) return false;
    if (open == step.npos) continue;
    if (!step.ends_with(']')) return false;
    const std::string_view index = step.substr(open + 1, step.size() - open - 2);
    if (index.find_first_not_of("0123456789") != index.npos) return false;
    if (!index.empty()) column.path.emplace_back(index);
  }
  return true;
}

Result<Column> ParseColumn(std::string_view text) {
  Column column;
  const auto parts = Split(text, ':');
  std::string_view key = parts[0];
  if (!TakeTransform(key, column) || !TakePath(key, column))
    return InvalidArgument("\"{}\" is not a column; write a key such as name or name.basename()",
                           text);
  column.label = Title(column.path.back());
  for (size_t i = 1; i < parts.size(); ++i) {
    constexpr std::string_view kLabel = "label=";
    if (!parts[i].starts_with(kLabel))
      return InvalidArgument("\"{}\" in \"{}\" is not known; valid: label=TITLE", parts[i], text);
    column.label = parts[i].substr(kLabel.size());
  }
  return column;
}

// The value at a path, or nullptr.
const Json* Find(const Json& resource, const std::vector<std::string>& path) {
  const Json* at = &resource;
  for (const std::string& step : path) {
    if (at->is_array()) {
      const size_t index = std::strtoul(step.c_str(), nullptr, 10);
      if (step.find_first_not_of("0123456789") != step.npos || index >= at->size()) return nullptr;
      at = &(*at)[index];
    } else {
      if (!at->is_object()) return nullptr;
      const auto found = at->find(step);
      if (found == at->end()) return nullptr;
      at = &*found;
    }
  }
  return at;
}

// A value in a cell: text bare, booleans as gcloud says them, lists joined, objects as JSON.
std::string Scalar(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& each : value) text += (text.empty() ? "" : ";") + Scalar(each);
  return text;
}

// Characters, not bytes, of UTF-8 text.
size_t Width(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

// Whether a plain YAML scalar would read back as something other than this text.
bool NeedsQuotes(const std::string& text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return true;
  static constexpr std::string_view kWords[] = {"null", "~",   "true", "false", "yes",  "no",
                                                "on",   "off", "y",    "n",     ".inf", ".nan"};
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::ranges::find(kWords, lower) != std::end(kWords)) return true;
  // Anything that begins like a number or a date is safer quoted.
  const char first = text[0] == '-' || text[0] == '+' || text[0] == '.' ? text[1] : text[0];
  return first >= '0' && first <= '9' &&
         text.find_first_not_of("0123456789abcdefABCDEFxXoO_.:+-TZ ") == std::string::npos;
}

void EmitYaml(YAML::Emitter& out, const Json& value) {
  if (value.is_object() && !value.empty()) {
    out << YAML::BeginMap;
    for (const auto& [key, each] : value.items()) {
      out << YAML::Key << key << YAML::Value;
      EmitYaml(out, each);
    }
    out << YAML::EndMap;
  } else if (value.is_array() && !value.empty()) {
    out << YAML::BeginSeq;
    for (const Json& each : value) EmitYaml(out, each);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.find('\n') != text.npos) {
      out << YAML::DoubleQuoted;
    } else if (NeedsQuotes(text)) {
      out << YAML::SingleQuoted;
    }
    out << text;
  } else if (value.is_object() || value.is_array()) {
    out << YAML::Flow << (value.is_object() ? YAML::BeginMap : YAML::BeginSeq)
        << (value.is_object() ? YAML::EndMap : YAML::EndSeq);
  } else if (value.is_null()) {
    out << YAML::Null;
  } else {
    out << value.dump();  // a number, true or false: the same word in both languages
  }
}

std::string PrintValues(const Json& resources, const std::vector<Column>& columns) {
  std::string text;
  for (const Json& resource : resources) {
    std::string line;
    for (const Column& column : columns)
      line += (&column == &columns.front() ? "" : "\t") + Cell(resource, column);
    text += line + "\n";
  }
  return text;
}

std::string PrintYamlDocuments(const Json& resources) {
  std::string text;
  for (const Json& resource : resources)
    text += (resources.size() > 1 ? "---\n" : "") + PrintYaml(resource);
  return text;
}

}  // namespace

Result<std::vector<Column>> ParseColumns(std::string_view text) {
  std::vector<Column> columns;
  for (const std::string_view part : Split(text, ',')) {
    TORUS_ASSIGN_OR_RETURN(Column column, ParseColumn(part));
    columns.push_back(std::move(column));
  }
  return columns;
}

Result<Format> Format::Parse(std::string_view text) {
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"", Kind::kDefault},  {"default", Kind::kDefault}, {"json", Kind::kJson},
      {"yaml", Kind::kYaml}, {"table", Kind::kTable},     {"value", Kind::kValue},
      {"none", Kind::kNone}, {"disable", Kind::kNone}};
  Format format;
  text = Trim(text);
  const size_t open = text.find('(');
  const std::string_view name = text.substr(0, open);
  const auto kind = std::ranges::find(kKinds, name, [](const auto& each) { return each.first; });
  if (kind == std::end(kKinds)) return InvalidArgument("\"{}\" is unknown; {}", text, kValid);
  format.kind_ = kind->second;
  const bool takes_keys = format.kind_ == Kind::kTable || format.kind_ == Kind::kValue;
  if (open == text.npos) {
    if (format.kind_ == Kind::kValue)
      return InvalidArgument("value needs its keys, such as value(name, state)");
    return format;
  }
  if (!takes_keys || !text.ends_with(')'))
    return InvalidArgument("\"{}\" is unknown; {}", text, kValid);
  TORUS_ASSIGN_OR_RETURN(format.columns_,
                         ParseColumns(text.substr(open + 1, text.size() - open - 2)));
  return format;
}

std::string Format::Print(const Json& resource, std::string_view columns) const {
  switch (kind_) {
    case Kind::kJson:
      return resource.dump(2) + "\n";
    case Kind::kDefault:
    case Kind::kYaml:
      return PrintYaml(resource);
    default:
      return PrintList(Json::array({resource}), columns);
  }
}

std::string Format::PrintList(const Json& resources, std::string_view columns) const {
  switch (kind_) {
    case Kind::kJson:
      return resources.dump(2) + "\n";
    case Kind::kYaml:
      return PrintYamlDocuments(resources);
    case Kind::kValue:
      return PrintValues(resources, columns_);
    case Kind::kNone:
      return {};
    default:
      if (resources.empty()) return {};
      return PrintTable(resources, columns_.empty() ? *ParseColumns(columns) : columns_);
  }
}

std::string Cell(const Json& resource, const Column& column) {
  const Json* value = Find(resource, column.path);
  if (!value) return {};
  std::string text = Scalar(*value);
  if (column.transform == Column::Transform::kNone) return text;
  const auto parts = Split(text, '/');
  const int count = static_cast<int>(parts.size());
  int index = column.transform == Column::Transform::kBasename ? -1 : column.segment;
  if (index < 0) index += count;
  return index >= 0 && index < count ? std::string(parts[index]) : std::string();
}

std::string PrintTable(const Json& resources, const std::vector<Column>& columns) {
  std::vector<std::vector<std::string>> rows(1);
  for (const Column& column : columns) rows[0].push_back(column.label);
  for (const Json& resource : resources) {
    auto& row = rows.emplace_back();
    for (const Column& column : columns) row.push_back(Cell(resource, column));
  }
  std::vector<size_t> widths(columns.size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - Width(row[i]) + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string PrintYaml(const Json& value) {
  YAML::Emitter out;
  EmitYaml(out, value);
  return std::string(out.c_str()) + "\n";
}

}  // namespace torus::cli
