// JSON as Google's front end reads it, and its errors. Writing is json_printer.h's.
//
// Reading is strict: a name that neither the message nor upstream's discovery document knows is an
// error in upstream's words. A name that only the discovery document knows (the .proto files lag
// behind it) is accepted and left out.
//
// Pure. Thread-safety: free functions.
#ifndef TORUS_SERVICE_GATEWAY_JSON_H_
#define TORUS_SERVICE_GATEWAY_JSON_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "google/protobuf/message.h"

namespace torus::gateway {

// Deepest nesting of a request's body; protobuf's own parser stops at 100 too.
inline constexpr int kMaxJsonDepth = 100;

// Reads `text` into `message`. `path` is where the message stands in the request ("node"; empty:
// the request itself); errors name fields from there. INVALID_ARGUMENT: not JSON, not UTF-8, too
// deep, an unknown name, a value of the wrong type.
Status ParseJson(std::string_view text, std::string_view path, google::protobuf::Message* message);

// Sets the field that a path template's variable or a query parameter names ("node.name",
// "pageSize", "updateMask"); a repeated field gains a value. INVALID_ARGUMENT in upstream's words
// for an unknown name or a value of the wrong type.
Status SetField(std::string_view field_path, std::string_view value,
                google::protobuf::Message* message);

// The body of an error's answer: {"error": {"code": 404, "message": …, "status": "NOT_FOUND"}}.
std::string ErrorJson(const Status& status);
// The HTTP status of a canonical code (google/rpc/code.proto).
int HttpStatus(Code code);

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_JSON_H_
