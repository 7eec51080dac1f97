// JSON bodies: "TYPE\nJSON". What a message's reader takes is written as JSON that it reads as the
// same message.
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "google/cloud/tpu/v2/cloud_tpu.pb.h"
#include "google/longrunning/operations.pb.h"
#include "google/protobuf/util/message_differencer.h"
#include "service/gateway/json.h"
#include "service/gateway/json_printer.h"

namespace torus::fuzz {
namespace {

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

std::unique_ptr<Message> NewMessage(std::string_view type) {
  namespace v2 = google::cloud::tpu::v2;
  namespace longrunning = google::longrunning;
  if (type == "node") return std::make_unique<v2::Node>();
  if (type == "create") return std::make_unique<v2::CreateNodeRequest>();
  if (type == "update") return std::make_unique<v2::UpdateNodeRequest>();
  if (type == "queued") return std::make_unique<v2::QueuedResource>();
  if (type == "operation") return std::make_unique<longrunning::Operation>();
  if (type == "operations") return std::make_unique<longrunning::ListOperationsResponse>();
  return nullptr;
}

void CheckPrints(const Message& message, const gateway::JsonFormat& format) {
  const auto text = gateway::PrintJson(message, format);
  Check(text.has_value(), "{} can be written: {}", message.ShortDebugString(),
        text ? "" : text.error().message());
  Check(nlohmann::json::accept(*text), "this is JSON: {}", *text);
  const std::unique_ptr<Message> again(message.New());
  const Status read = gateway::ParseJson(*text, "", again.get());
  Check(read.ok(), "what was written reads: {}\n{}", read.message(), *text);
  Check(MessageDifferencer::Equals(*again, message), "it reads as the same:\n{}\n{}",
        message.ShortDebugString(), again->ShortDebugString());
}

}  // namespace

void Fuzz(std::string_view input) {
  const auto message = NewMessage(TakeUntil("\n", &input));
  if (!message) return;
  const Status status = gateway::ParseJson(input, "body", message.get());
  if (!status.ok()) {
    Check(status.code() == Code::kInvalidArgument, "{} is INVALID_ARGUMENT", status.ToString());
    Check(nlohmann::json::accept(gateway::ErrorJson(status)), "the error is JSON: {}",
          gateway::ErrorJson(status));
    return;
  }
  // Only answers are written, and a field mask knows paths that have no JSON form.
  if (message->GetDescriptor()->name() == "UpdateNodeRequest") return;
  CheckPrints(*message, {});
  CheckPrints(*message, {.pretty = false, .enums_as_numbers = true});
}

}  // namespace torus::fuzz
