#include "service/gateway/rest.h"

#include <algorithm>
#include <array>

#include "service/gateway/json.h"
#include "service/gateway/json_printer.h"

namespace torus::gateway {
namespace {

// Parameters that Google's front end takes with any method (the discovery documents'
// `parameters`); with or without "$" before them.
constexpr std::array<std::string_view, 13> kSystemParameters = {
    "access_token", "alt",         "callback",   "fields",     "key",
    "oauth_token",  "prettyPrint", "quotaUser",  "uploadType", "upload_protocol",
    "xgafv",        ".xgafv",      "userProject"};
// Known to discovery documents and without effect here: locations.list's.
constexpr std::array<std::string_view, 1> kUnusedParameters = {"extraLocationTypes"};

std::pair<std::string, std::string> VerbAndPath(const google::api::HttpRule& rule) {
  switch (rule.pattern_case()) {
    case google::api::HttpRule::kGet:
      return {"GET", rule.get()};
    case google::api::HttpRule::kPut:
      return {"PUT", rule.put()};
    case google::api::HttpRule::kPost:
      return {"POST", rule.post()};
    case google::api::HttpRule::kDelete:
      return {"DELETE", rule.delete_()};
    case google::api::HttpRule::kPatch:
      return {"PATCH", rule.patch()};
    default:
      return {rule.custom().kind(), rule.custom().path()};
  }
}

std::string DecodeQuery(std::string text) {
  std::ranges::replace(text, '+', ' ');
  return PercentDecode(text);
}

// True if `key` was a parameter of the front end's own.
Result<bool> TakeSystemParameter(std::string_view key, std::string_view value, JsonFormat* format) {
  if (key.starts_with('$')) key.remove_prefix(1);
  if (std::ranges::find(kUnusedParameters, key) != kUnusedParameters.end()) return true;
  if (std::ranges::find(kSystemParameters, key) == kSystemParameters.end()) return false;
  if (key == "prettyPrint") format->pretty = value != "false" && value != "0";
  if (key == "alt") {
    if (value != "json" && !value.starts_with("json;"))
      return InvalidArgument("Invalid value \"{}\" of parameter \"alt\": only \"json\" is served.",
                             value);
    format->enums_as_numbers = value.find("enum-encoding=int") != std::string_view::npos;
  }
  return true;
}

Status TakeQuery(std::string_view query, JsonFormat* format, Message* message) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    const std::string key = DecodeQuery(std::string(pair.substr(0, equals)));
    const std::string value =
        equals == std::string_view::npos ? "" : DecodeQuery(std::string(pair.substr(equals + 1)));
    TORUS_ASSIGN_OR_RETURN(const bool taken, TakeSystemParameter(key, value, format));
    if (!taken) TORUS_RETURN_IF_ERROR(SetField(key, value, message));
  }
  return {};
}

}  // namespace

struct Rest::Bound {
  const Method* method;
  std::unique_ptr<Message> message;
  JsonFormat format;
};

Rest::Rest(const Registry& registry) {
  for (const Method* method : registry.methods()) {
    for (const auto& rule : method->http) {
      auto [verb, path] = VerbAndPath(rule);
      routes_.push_back({std::move(verb), *PathTemplate::Parse(path), rule.body(), method});
    }
  }
}

Result<Rest::Bound> Rest::Bind(const RestRequest& request) const {
  const std::string_view target = request.target;
  const size_t mark = target.find('?');
  const std::string_view path = target.substr(0, mark);
  for (const Route& route : routes_) {
    if (route.verb != request.verb) continue;
    const auto variables = route.path.Match(path);
    if (!variables) continue;
    Bound bound{route.method, route.method->NewRequest(), {}};
    Message* message = bound.message.get();
    if (!route.body.empty()) {
      Message* body = message;
      std::string_view at;
      if (route.body != "*") {
        at = route.body;
        const auto* field = message->GetDescriptor()->FindFieldByName(route.body);
        body = message->GetReflection()->MutableMessage(message, field);
      }
      TORUS_RETURN_IF_ERROR(ParseJson(request.body, at, body));
    }
    if (mark != std::string_view::npos)
      TORUS_RETURN_IF_ERROR(TakeQuery(target.substr(mark + 1), &bound.format, message));
    // The path comes last: it says which resource is meant, whatever the body claims.
    for (const auto& [field, value] : *variables)
      TORUS_RETURN_IF_ERROR(SetField(field, value, message));
    return bound;
  }
  return NotFound("Method not found: {} {}. The APIs that this service speaks: docs/api.md.",
                  request.verb, path);
}

void Rest::Handle(const RestRequest& request, std::function<void(RestResponse)> reply) const {
  const auto fail = [](const Status& status) {
    return RestResponse{HttpStatus(status.code()), ErrorJson(status)};
  };
  auto bound = Bind(request);
  if (!bound) return reply(fail(bound.error()));
  bound->method->Call(std::move(bound->message),
                      [fail, format = bound->format,
                       reply = std::move(reply)](Result<std::unique_ptr<Message>> answer) {
                        if (!answer) return reply(fail(answer.error()));
                        auto body = PrintJson(**answer, format);
                        if (!body) return reply(fail(body.error()));
                        reply({200, *std::move(body)});
                      });
}

}  // namespace torus::gateway
