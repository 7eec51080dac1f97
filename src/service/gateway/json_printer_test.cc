// The printer against protobuf's own, on random messages of every type that our APIs use and of one
// with every kind of field there is.
#include "service/gateway/json_printer.h"

#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wrappers.pb.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "compute.pb.h"
#include "google/cloud/location/locations.pb.h"
#include "google/cloud/tpu/v2/cloud_tpu.pb.h"
#include "google/longrunning/operations.pb.h"

namespace torus::gateway {
namespace {

namespace protobuf = google::protobuf;
using google::longrunning::Operation;
using nlohmann::json;
using protobuf::FieldDescriptor;
using protobuf::Message;

constexpr int kMaxDepth = 4;

// Fills messages at random, by reflection; the same seed makes the same messages.
class Filler {
 public:
  explicit Filler(unsigned seed) : random_(seed) {}

  void Fill(Message* message, int depth = 0) {
    if (FillOwnForm(message)) return;
    const auto* type = message->GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      if (OneIn(3) || (is_message && !field.is_map() && depth == kMaxDepth)) continue;
      if (!field.is_repeated()) {
        Set(message, field, depth);
        continue;
      }
      for (int left = Below(4); left > 0; --left) Set(message, field, depth);
    }
    RemoveEqualKeys(message);
  }

 private:
  int Below(int end) { return std::uniform_int_distribution(0, end - 1)(random_); }
  bool OneIn(int count) { return Below(count) == 0; }
  int64_t Between(int64_t first, int64_t last) {
    return std::uniform_int_distribution(first, last)(random_);
  }
  template <typename Number>
  Number Any() {
    using Limits = std::numeric_limits<Number>;
    if (OneIn(4)) return 0;
    if constexpr (std::is_floating_point_v<Number>) {
      if (OneIn(4)) return OneIn(2) ? Limits::infinity() : -Limits::infinity();
      if (OneIn(8)) return Limits::quiet_NaN();
      // Halves: protobuf gives some floats more digits than they need.
      return static_cast<Number>(std::round(std::normal_distribution(0.0, 1e6)(random_)) / 2);
    } else {
      if (OneIn(4)) return OneIn(2) ? Limits::max() : Limits::min();
      return static_cast<Number>(random_());
    }
  }
  std::string Text() {
    constexpr std::array<std::string_view, 14> kPieces = {"a",  "node-1", "\"",   "\\",    "<b>",
                                                          "\n", "\x01",   "\x7f", "é",     "日本",
                                                          "😀",  "/",      " ",    "\u2028"};
    std::string text;
    for (int left = Below(5); left > 0; --left) text += kPieces[Below(kPieces.size())];
    return text;
  }

  void Set(Message* message, const FieldDescriptor& field, int depth) {
    const auto& access = *message->GetReflection();
    const auto put = [&](auto set, auto add, auto value) {
      field.is_repeated() ? (access.*add)(message, &field, std::move(value))
                          : (access.*set)(message, &field, std::move(value));
    };
    using R = protobuf::Reflection;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return put(&R::SetInt32, &R::AddInt32, Any<int32_t>());
      case FieldDescriptor::CPPTYPE_UINT32:
        return put(&R::SetUInt32, &R::AddUInt32, Any<uint32_t>());
      case FieldDescriptor::CPPTYPE_INT64:
        return put(&R::SetInt64, &R::AddInt64, Any<int64_t>());
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(&R::SetUInt64, &R::AddUInt64, Any<uint64_t>());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return put(&R::SetFloat, &R::AddFloat, Any<float>());
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return put(&R::SetDouble, &R::AddDouble, Any<double>());
      case FieldDescriptor::CPPTYPE_BOOL:
        return put(&R::SetBool, &R::AddBool, OneIn(2));
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto& type = *field.enum_type();
        const int known = type.value(Below(type.value_count()))->number();
        return put(&R::SetEnumValue, &R::AddEnumValue, OneIn(8) ? 77 : known);
      }
      case FieldDescriptor::CPPTYPE_STRING:
        return put(&R::SetString, &R::AddString, Text());
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fill(field.is_repeated() ? access.AddMessage(message, &field)
                                        : access.MutableMessage(message, &field),
                    depth + 1);
    }
  }

  // Messages of which not every filling is legal.
  bool FillOwnForm(Message* message) {
    if (auto* time = dynamic_cast<protobuf::Timestamp*>(message)) {
      time->set_seconds(Between(-62'135'596'800, 253'402'300'799));
      time->set_nanos(Nanos());
    } else if (auto* duration = dynamic_cast<protobuf::Duration*>(message)) {
      duration->set_seconds(Between(-315'576'000'000, 315'576'000'000));
      duration->set_nanos(duration->seconds() < 0 ? -Nanos() : Nanos());
    } else if (auto* mask = dynamic_cast<protobuf::FieldMask*>(message)) {
      for (const char* path : {"labels", "network_config.network", "metadata"})
        if (OneIn(2)) mask->add_paths(path);
    } else if (auto* any = dynamic_cast<protobuf::Any*>(message)) {
      FillAny(any);
    } else if (auto* object = dynamic_cast<protobuf::Struct*>(message)) {
      (*object->mutable_fields())["a"].set_number_value(Below(100));
      (*object->mutable_fields())["b"].set_null_value(protobuf::NULL_VALUE);
    } else {
      return false;
    }
    return true;
  }

  int32_t Nanos() {
    constexpr std::array kUnits = {1'000'000'000, 1'000'000, 1'000, 1};
    const int unit = kUnits[Below(kUnits.size())];
    return unit * Below(1'000'000'000 / unit);
  }

  void FillAny(protobuf::Any* any) {
    google::cloud::tpu::v2::Node node;
    google::cloud::tpu::v2::OperationMetadata metadata;
    protobuf::Empty empty;
    protobuf::Timestamp time;
    protobuf::Struct object;
    const std::array<Message*, 5> kinds = {&node, &metadata, &empty, &time, &object};
    if (OneIn(6)) return;  // holds nothing
    Message* held = kinds[Below(kinds.size())];
    Fill(held);
    any->PackFrom(*held);
  }

  // An entry added by reflection may have the key of another; the bytes of a message never do.
  static void RemoveEqualKeys(Message* message) {
    const std::string bytes = message->SerializePartialAsString();
    message->ParsePartialFromString(bytes);
  }

  std::mt19937_64 random_;
};

// What protobuf says, with the `done` that it leaves out.
json Expected(const Message& message, const JsonFormat& format) {
  protobuf::util::JsonPrintOptions options;
  options.add_whitespace = format.pretty;
  options.always_print_enums_as_ints = format.enums_as_numbers;
  std::string text;
  const auto status = protobuf::util::MessageToJsonString(message, &text, options);
  EXPECT_TRUE(status.ok()) << status.message() << message.DebugString();
  json expected = json::parse(text);
  const auto say_done = [](json& operation) {
    if (!operation.contains("done")) operation["done"] = false;
  };
  if (message.GetDescriptor() == Operation::descriptor()) say_done(expected);
  if (message.GetDescriptor() == google::longrunning::ListOperationsResponse::descriptor() &&
      expected.contains("operations"))
    for (json& operation : expected["operations"]) say_done(operation);
  return expected;
}

void ExpectAsProtobuf(const Message& message, const JsonFormat& format) {
  const auto text = PrintJson(message, format);
  ASSERT_TRUE(text) << text.error().ToString();
  EXPECT_EQ(json::parse(*text), Expected(message, format)) << *text;
  EXPECT_EQ(text->find('\n') != std::string::npos, format.pretty);
}

void ExpectAllAsProtobuf(const Message& prototype) {
  for (unsigned seed = 0; seed < 300 && !::testing::Test::HasFailure(); ++seed) {
    const std::unique_ptr<Message> message(prototype.New());
    Filler(seed).Fill(message.get());
    ExpectAsProtobuf(*message, {.pretty = seed % 2 == 0, .enums_as_numbers = seed % 3 == 0});
  }
}

TEST(PrintJson, IsAsProtobufsForEveryTypeOfOurApis) {
  for (const auto* file :
       {google::cloud::tpu::v2::Node::descriptor()->file(), Operation::descriptor()->file(),
        compute::v1::Project::descriptor()->file(),
        google::cloud::location::Location::descriptor()->file()})
    for (int i = 0; i < file->message_type_count(); ++i) {
      SCOPED_TRACE(file->message_type(i)->full_name());
      ExpectAllAsProtobuf(
          *protobuf::MessageFactory::generated_factory()->GetPrototype(file->message_type(i)));
    }
}

// A message with a field of each type: alone, repeated, in a oneof, and as a map's key or value;
// and with the types of google.protobuf that have a form of their own.
protobuf::FileDescriptorProto EveryKindOfField() {
  protobuf::FileDescriptorProto file;
  file.set_name("every.proto");
  file.set_syntax("proto3");
  for (const auto* used : {protobuf::Struct::descriptor(), protobuf::Int64Value::descriptor(),
                           protobuf::Timestamp::descriptor(), protobuf::Duration::descriptor(),
                           protobuf::FieldMask::descriptor(), protobuf::Any::descriptor()})
    file.add_dependency(used->file()->name());
  std::string text = "name: 'Every' oneof_decl { name: 'one' }";
  int number = 0;
  const auto add = [&](std::string type, const std::string& label, const std::string& more = "") {
    ++number;
    text += fmt::format(
        "field {{ name: 'field_{0}' json_name: 'field{0}' number: {0} label: {1} {2} {3} }}",
        number, label, type, more);
  };
  const auto of = [](const std::string& name) {
    return fmt::format("type: TYPE_MESSAGE type_name: '.google.protobuf.{}'", name);
  };
  const std::array kScalars = {"DOUBLE",  "FLOAT",    "INT64",    "UINT64", "INT32",
                               "FIXED64", "FIXED32",  "BOOL",     "STRING", "BYTES",
                               "UINT32",  "SFIXED32", "SFIXED64", "SINT32", "SINT64"};
  for (const std::string scalar : kScalars)
    add("type: TYPE_" + scalar, "LABEL_OPTIONAL", "oneof_index: 0");
  for (const std::string scalar : kScalars) {
    const std::string type = "type: TYPE_" + scalar;
    add(type, "LABEL_OPTIONAL");
    add(type, "LABEL_REPEATED");
    const bool is_key = scalar != "DOUBLE" && scalar != "FLOAT" && scalar != "BYTES";
    const std::string entry = fmt::format("Field{}Entry", number + 1);
    text += fmt::format(
        "nested_type {{ name: '{}' options {{ map_entry: true }}"
        "  field {{ name: 'key' number: 1 label: LABEL_OPTIONAL {} }}"
        "  field {{ name: 'value' number: 2 label: LABEL_OPTIONAL {} }} }}",
        entry, is_key ? type : "type: TYPE_STRING", is_key ? of("Timestamp") : type);
    add(fmt::format("type: TYPE_MESSAGE type_name: '.Every.{}'", entry), "LABEL_REPEATED");
  }
  for (const char* name : {"Struct", "Int64Value", "Timestamp", "Duration", "FieldMask", "Any"}) {
    add(of(name), "LABEL_OPTIONAL");
    add(of(name), "LABEL_REPEATED");
  }
  EXPECT_TRUE(protobuf::TextFormat::ParseFromString(text, file.add_message_type()));
  return file;
}

TEST(PrintJson, IsAsProtobufsForEveryKindOfField) {
  protobuf::DescriptorPool pool(protobuf::DescriptorPool::generated_pool());
  const auto* file = pool.BuildFile(EveryKindOfField());
  ASSERT_NE(file, nullptr);
  protobuf::DynamicMessageFactory factory;
  factory.SetDelegateToGeneratedFactory(true);
  ExpectAllAsProtobuf(*factory.GetPrototype(file->message_type(0)));
}

TEST(PrintJson, IndentsAsGooglesFrontEndDoes) {
  google::cloud::tpu::v2::Node node;
  EXPECT_EQ(*PrintJson(node, {}), "{}\n");
  node.set_name("n");
  node.add_tags("a");
  node.add_tags("b");
  (*node.mutable_labels())["k"] = "v";
  node.mutable_scheduling_config();
  EXPECT_EQ(
      *PrintJson(node, {}),
      "{\n \"name\": \"n\",\n \"schedulingConfig\": {},\n \"labels\": {\n  \"k\": \"v\"\n },\n"
      " \"tags\": [\n  \"a\",\n  \"b\"\n ]\n}\n");
  EXPECT_EQ(*PrintJson(node, {.pretty = false}),
            R"({"name":"n","schedulingConfig":{},"labels":{"k":"v"},"tags":["a","b"]})");
}

TEST(PrintJson, WritesValidUtf8WhateverAFieldHolds) {
  google::cloud::tpu::v2::Node node;
  node.set_description("\xff!");
  EXPECT_EQ(json::parse(*PrintJson(node, {}))["description"], "\uFFFD!");
}

TEST(PrintJson, SaysWhatCannotBeWritten) {
  Operation operation;
  operation.mutable_response()->set_type_url("type.googleapis.com/no.such.Type");
  const auto text = PrintJson(operation, {});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), Code::kInternal);
  EXPECT_NE(text.error().message().find("no.such.Type"), std::string::npos);
}

}  // namespace
}  // namespace torus::gateway
