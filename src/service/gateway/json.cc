#include "service/gateway/json.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "service/gateway/discovery_names.h"

namespace torus::gateway {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

std::string Join(std::string_view path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

std::string At(std::string_view path) {
  return path.empty() ? std::string() : fmt::format(" at '{}'", path);
}

const FieldDescriptor* FindField(const Descriptor& type, std::string_view name) {
  for (int i = 0; i < type.field_count(); ++i)
    if (type.field(i)->json_name() == name || type.field(i)->name() == name) return type.field(i);
  return nullptr;
}

// Messages whose JSON form is their own: timestamps, masks, Any …
bool HasOwnForm(const Descriptor& type) { return type.file()->package() == "google.protobuf"; }

Status CheckValue(const FieldDescriptor& field, const std::string& path, Json& value);

// Finds unknown names in `object` and takes out those that only the discovery document knows.
Status CheckNames(const Descriptor& type, std::string_view path, Json& object) {
  if (!object.is_object() || HasOwnForm(type)) return {};
  for (auto it = object.begin(); it != object.end();) {
    const FieldDescriptor* field = FindField(type, it.key());
    if (field == nullptr && IsDiscoveryName(type.full_name(), it.key())) {
      it = object.erase(it);
      continue;
    }
    if (field == nullptr)
      return InvalidArgument(
          "Invalid JSON payload received. Unknown name \"{}\"{}: Cannot find field.", it.key(),
          At(path));
    TORUS_RETURN_IF_ERROR(CheckValue(*field, Join(path, field->name()), it.value()));
    ++it;
  }
  return {};
}

Status CheckValue(const FieldDescriptor& field, const std::string& path, Json& value) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return {};
  if (field.is_map()) {
    const FieldDescriptor* element = field.message_type()->map_value();
    if (element->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || !value.is_object()) return {};
    for (auto& [key, entry] : value.items())
      TORUS_RETURN_IF_ERROR(
          CheckNames(*element->message_type(), fmt::format("{}[{}]", path, key), entry));
    return {};
  }
  if (field.is_repeated()) {
    for (size_t i = 0; value.is_array() && i < value.size(); ++i)
      TORUS_RETURN_IF_ERROR(
          CheckNames(*field.message_type(), fmt::format("{}[{}]", path, i), value[i]));
    return {};
  }
  return CheckNames(*field.message_type(), path, value);
}

Result<Json> ReadJson(std::string_view text) {
  bool too_deep = false;
  const auto watch_depth = [&](int depth, Json::parse_event_t, Json&) {
    too_deep |= depth > kMaxJsonDepth;
    return !too_deep;
  };
  try {
    Json json = Json::parse(text, watch_depth);
    if (too_deep)
      return InvalidArgument(
          "Invalid JSON payload received. Message too deep. Max recursion depth reached for key "
          "({} levels).",
          kMaxJsonDepth);
    if (!json.is_object())
      return InvalidArgument(
          "Invalid JSON payload received. The body must be a JSON object, not {}.",
          json.type_name());
    return json;
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …": from "parse error" on.
    std::string_view what = error.what();
    if (const size_t start = what.find("] "); start != std::string_view::npos)
      what.remove_prefix(start + 2);
    return InvalidArgument("Invalid JSON payload received. {}", what);
  }
}

// The text between "INVALID_ARGUMENT:" and the end of what protobuf's reader says.
std::string_view Reason(std::string_view message) {
  return message.substr(0, std::min<size_t>(message.size(), 300));
}

// Text that a field takes as it is: most of what paths and queries carry.
bool IsPlainText(const FieldDescriptor& field, std::string_view value) {
  return field.type() == FieldDescriptor::TYPE_STRING && !field.is_repeated() &&
         std::ranges::all_of(value, [](unsigned char c) { return c < 0x80; });
}

}  // namespace

Status ParseJson(std::string_view text, std::string_view path, Message* message) {
  if (std::ranges::all_of(text, [](unsigned char c) { return std::isspace(c) != 0; })) return {};
  TORUS_ASSIGN_OR_RETURN(Json json, ReadJson(text));
  TORUS_RETURN_IF_ERROR(CheckNames(*message->GetDescriptor(), path, json));
  const auto status = google::protobuf::util::JsonStringToMessage(DumpJson(json), message);
  if (status.ok()) return {};
  return InvalidArgument("Invalid JSON payload received. Invalid value{}: {}", At(path),
                         Reason(std::string(status.message())));
}

Status SetField(std::string_view field_path, std::string_view value, Message* message) {
  const size_t dot = field_path.find('.');
  const std::string_view name = field_path.substr(0, dot);
  const FieldDescriptor* field = FindField(*message->GetDescriptor(), name);
  if (field == nullptr)
    return InvalidArgument(
        "Invalid JSON payload received. Unknown name \"{}\": Cannot bind query parameter. Field "
        "'{}' could not be found in request message.",
        field_path, field_path);
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (dot != std::string_view::npos) {
    if (!is_message || field->is_repeated())
      return InvalidArgument(
          "Invalid JSON payload received. Unknown name \"{}\": Cannot bind query parameter. '{}' "
          "is not a message.",
          field_path, name);
    return SetField(field_path.substr(dot + 1), value,
                    message->GetReflection()->MutableMessage(message, field));
  }
  if (is_message && !HasOwnForm(*field->message_type()))
    return InvalidArgument(
        "Invalid JSON payload received. Unknown name \"{}\": Cannot bind query parameter. '{}' is "
        "a message type. Parameters can only be bound to primitive types.",
        field_path, field_path);
  if (IsPlainText(*field, value)) {
    message->GetReflection()->SetString(message, field, std::string(value));
    return {};
  }
  // A string in JSON reads as any primitive but a boolean.
  Json scalar = std::string(value);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL && (value == "true" || value == "false"))
    scalar = value == "true";
  Json object;
  object[field->json_name()] = field->is_repeated() ? Json::array({scalar}) : scalar;
  std::unique_ptr<Message> one(message->New());
  const auto status = google::protobuf::util::JsonStringToMessage(DumpJson(object), one.get());
  if (!status.ok())
    return InvalidArgument("Invalid value at '{}' ({}), \"{}\"", field->name(), field->type_name(),
                           value);
  message->MergeFrom(*one);
  return {};
}

std::string ErrorJson(const Status& status) {
  const Json json = {{"error",
                      {{"code", HttpStatus(status.code())},
                       {"message", status.message()},
                       {"status", CodeName(status.code())}}}};
  // A message may quote what a client sent, whatever its bytes.
  return DumpJson(json, 2) + "\n";
}

int HttpStatus(Code code) {
  constexpr std::array kStatuses = {200, 499, 500, 400, 504, 404, 409, 403, 429,
                                    400, 409, 400, 501, 500, 503, 500, 401};
  const auto index = static_cast<size_t>(code);
  return index < kStatuses.size() ? kStatuses[index] : 500;
}

}  // namespace torus::gateway
