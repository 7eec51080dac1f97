// Writes JSON that may hold what others sent.
//
// Header-only, pure.
#ifndef TORUS_BASE_JSON_H_
#define TORUS_BASE_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace torus {

// `json` as text, on one line or with `indent` spaces a level. Bytes that are not UTF-8 become
// U+FFFD: nlohmann's own dump() throws at them, and ends the process that did not expect it.
inline std::string DumpJson(const nlohmann::json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

// `text` for a field of protobuf's type string: a message with other bytes than UTF-8 in one cannot
// be read by whom it is sent to. They become U+FFFD.
inline std::string ValidUtf8(std::string_view text) {
  return nlohmann::json::parse(DumpJson(text)).get<std::string>();
}

}  // namespace torus

#endif  // TORUS_BASE_JSON_H_
