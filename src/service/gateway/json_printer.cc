#include "service/gateway/json_printer.h"

#include <absl/strings/escaping.h>
#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/time_util.h>

#include <cmath>

#include "base/json.h"
#include "google/longrunning/operations.pb.h"

namespace torus::gateway {
namespace {

namespace protobuf = google::protobuf;
using protobuf::FieldDescriptor;
using protobuf::Message;
using protobuf::Reflection;

// A value of a repeated field has an index; that of a singular field has none.
constexpr int kNoIndex = -1;

bool Is64Bit(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
}

// ASCII that JSON writes as it is. Looks at all of the text: without an early end many bytes are
// compared at once.
bool IsPlain(std::string_view text) {
  bool plain = true;
  for (const char c : text) plain &= c >= ' ' && c < 0x7f && c != '"' && c != '\\';
  return plain;
}

class Printer {
 public:
  explicit Printer(const JsonFormat& format) : format_(format) {}

  Result<std::string> Print(const Message& message) {
    PrintMessage(message);
    if (format_.pretty) text_ += '\n';
    if (!status_.ok()) return Error(std::move(status_));
    return std::move(text_);
  }

 private:
  void PrintMessage(const Message& message) {
    const auto* type = message.GetDescriptor();
    if (type->file()->package() == "google.protobuf" && PrintOwnForm(message)) return;
    const Nesting object(this, '{', '}');
    PrintFields(message);
  }

  // Messages that the mapping gives a form of their own. False: it is like any other (Empty).
  bool PrintOwnForm(const Message& message) {
    const auto* type = message.GetDescriptor();
    if (type == protobuf::Timestamp::descriptor()) {
      const auto& time = static_cast<const protobuf::Timestamp&>(message);
      PrintString(protobuf::util::TimeUtil::ToString(time));
    } else if (type == protobuf::Duration::descriptor()) {
      const auto& duration = static_cast<const protobuf::Duration&>(message);
      PrintString(protobuf::util::TimeUtil::ToString(duration));
    } else if (type == protobuf::Any::descriptor()) {
      PrintAny(static_cast<const protobuf::Any&>(message));
    } else if (type->field_count() == 0) {
      return false;
    } else {
      PrintByProtobuf(message);
    }
    return true;
  }

  // Masks, wrappers and structs: too rare in our APIs to have code here.
  void PrintByProtobuf(const Message& message) {
    std::string text;
    const auto printed = protobuf::util::MessageToJsonString(message, &text);
    if (!printed.ok()) return Fail(message.GetTypeName(), std::string(printed.message()));
    text_ += text;
  }

  void PrintAny(const protobuf::Any& any) {
    const Nesting object(this, '{', '}');
    if (any.type_url().empty()) return;
    PrintName("@type");
    PrintString(any.type_url());
    const std::string name = any.type_url().substr(any.type_url().rfind('/') + 1);
    const auto* type = protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(name);
    if (type == nullptr) return Fail(any.type_url(), "the type is not known");
    const std::unique_ptr<Message> message(
        protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
    if (!message->ParseFromString(any.value())) return Fail(name, "its bytes are damaged");
    if (type->file()->package() != "google.protobuf" || type->field_count() == 0)
      return PrintFields(*message);
    PrintName("value");
    PrintMessage(*message);
  }

  void PrintFields(const Message& message) {
    const auto* type = message.GetDescriptor();
    const Reflection& access = *message.GetReflection();
    const bool is_operation = type == google::longrunning::Operation::descriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      const bool always =
          is_operation && field.number() == google::longrunning::Operation::kDoneFieldNumber;
      const bool is_set = field.is_repeated() ? access.FieldSize(message, &field) > 0
                                              : always || access.HasField(message, &field);
      if (!is_set) continue;
      PrintName(field.json_name());
      if (field.is_map())
        PrintMap(message, access, field);
      else if (field.is_repeated())
        PrintList(message, access, field);
      else
        PrintValue(message, access, field);
    }
  }

  void PrintList(const Message& message, const Reflection& access, const FieldDescriptor& field) {
    const Nesting list(this, '[', ']');
    const int size = access.FieldSize(message, &field);
    for (int i = 0; i < size; ++i) {
      NextItem();
      PrintValue(message, access, field, i);
    }
  }

  // Reflection shows a map as a list of entries; keys are strings in JSON, whatever their type.
  void PrintMap(const Message& message, const Reflection& access, const FieldDescriptor& field) {
    const Nesting object(this, '{', '}');
    const FieldDescriptor& key = *field.message_type()->map_key();
    const FieldDescriptor& value = *field.message_type()->map_value();
    const int size = access.FieldSize(message, &field);
    for (int i = 0; i < size; ++i) {
      const Message& entry = access.GetRepeatedMessage(message, &field, i);
      const Reflection& entry_access = *entry.GetReflection();
      NextItem();
      const bool quoted = key.cpp_type() != FieldDescriptor::CPPTYPE_STRING && !Is64Bit(key);
      if (quoted) text_ += '"';
      PrintValue(entry, entry_access, key);
      text_ += quoted ? "\":" : ":";
      if (format_.pretty) text_ += ' ';
      PrintValue(entry, entry_access, value);
    }
  }

  void PrintValue(const Message& message, const Reflection& access, const FieldDescriptor& field,
                  int index = kNoIndex) {
    const bool one = index == kNoIndex;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return PrintNumber(one ? access.GetInt32(message, &field)
                               : access.GetRepeatedInt32(message, &field, index));
      case FieldDescriptor::CPPTYPE_UINT32:
        return PrintNumber(one ? access.GetUInt32(message, &field)
                               : access.GetRepeatedUInt32(message, &field, index));
      case FieldDescriptor::CPPTYPE_INT64:
        return PrintQuoted(one ? access.GetInt64(message, &field)
                               : access.GetRepeatedInt64(message, &field, index));
      case FieldDescriptor::CPPTYPE_UINT64:
        return PrintQuoted(one ? access.GetUInt64(message, &field)
                               : access.GetRepeatedUInt64(message, &field, index));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return PrintReal(one ? access.GetFloat(message, &field)
                             : access.GetRepeatedFloat(message, &field, index));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return PrintReal(one ? access.GetDouble(message, &field)
                             : access.GetRepeatedDouble(message, &field, index));
      case FieldDescriptor::CPPTYPE_BOOL:
        text_ +=
            (one ? access.GetBool(message, &field) : access.GetRepeatedBool(message, &field, index))
                ? "true"
                : "false";
        return;
      case FieldDescriptor::CPPTYPE_ENUM:
        return PrintEnum(*field.enum_type(),
                         one ? access.GetEnumValue(message, &field)
                             : access.GetRepeatedEnumValue(message, &field, index));
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string scratch;
        const std::string& text =
            one ? access.GetStringReference(message, &field, &scratch)
                : access.GetRepeatedStringReference(message, &field, index, &scratch);
        if (field.type() == FieldDescriptor::TYPE_BYTES)
          return PrintString(absl::Base64Escape(text));
        return PrintString(text);
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return PrintMessage(one ? access.GetMessage(message, &field)
                                : access.GetRepeatedMessage(message, &field, index));
    }
  }

  void PrintNumber(auto number) { fmt::format_to(std::back_inserter(text_), "{}", number); }
  void PrintQuoted(auto number) { fmt::format_to(std::back_inserter(text_), "\"{}\"", number); }

  void PrintReal(auto number) {
    if (std::isfinite(number)) return PrintNumber(number);
    text_ += std::isnan(number) ? "\"NaN\"" : number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  }

  void PrintEnum(const protobuf::EnumDescriptor& type, int number) {
    const auto* value = format_.enums_as_numbers ? nullptr : type.FindValueByNumber(number);
    if (value == nullptr) return PrintNumber(number);
    PrintString(value->name());
  }

  void PrintString(std::string_view text) {
    if (!IsPlain(text)) {
      text_ += DumpJson(text);
      return;
    }
    text_ += '"';
    text_ += text;
    text_ += '"';
  }

  void PrintName(std::string_view name) {
    NextItem();
    text_ += '"';
    text_ += name;
    text_ += format_.pretty ? "\": " : "\":";
  }

  // An object or a list: its brackets, and a level of indentation while it lives.
  struct Nesting {
    Nesting(Printer* printer, char open, char close) : printer(printer), close(close) {
      printer->text_ += open;
      printer->empty_ = true;
      ++printer->depth_;
    }
    ~Nesting() {
      --printer->depth_;
      if (!printer->empty_) printer->BreakLine();
      printer->empty_ = false;
      printer->text_ += close;
    }
    Printer* printer;
    char close;
  };

  void NextItem() {
    if (!empty_) text_ += ',';
    empty_ = false;
    BreakLine();
  }

  void BreakLine() {
    if (format_.pretty) text_.append(1, '\n').append(depth_, ' ');
  }

  void Fail(std::string_view what, std::string_view why) {
    if (status_.ok()) status_ = Internal("cannot write {} as JSON: {}", what, why);
  }

  const JsonFormat format_;
  std::string text_;
  bool empty_ = true;  // nothing stands yet between the innermost brackets
  size_t depth_ = 0;
  Status status_;  // the first error
};

}  // namespace

Result<std::string> PrintJson(const Message& message, const JsonFormat& format) {
  return Printer(format).Print(message);
}

}  // namespace torus::gateway
