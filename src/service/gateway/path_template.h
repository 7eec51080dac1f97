// Path templates of google.api.HttpRule: "/v2/{name=projects/*/locations/*/nodes/*}:stop".
// Grammar and matching: google/api/http.proto. Pure. Thread-safety: immutable once parsed.
#ifndef TORUS_SERVICE_GATEWAY_PATH_TEMPLATE_H_
#define TORUS_SERVICE_GATEWAY_PATH_TEMPLATE_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace torus::gateway {

class PathTemplate {
 public:
  // A variable's field path ("node.name") and the text it took.
  using Bindings = std::vector<std::pair<std::string, std::string>>;

  // INVALID_ARGUMENT says at which character the template is wrong.
  static Result<PathTemplate> Parse(std::string_view text);

  // Matches a path (percent-encoded as it came, no query); nullopt: another template's.
  std::optional<Bindings> Match(std::string_view path) const;

 private:
  struct Variable {
    std::string field_path;
    size_t begin, end;  // its segments, [begin, end)
  };
  std::vector<std::string> segments_;  // a literal, "*" or "**" (last only)
  std::vector<Variable> variables_;
  std::string verb_;  // after ":"; empty: none
};

// Decodes %XX. With `keep_slashes`, "%2F" stays as it is (a variable of several segments).
// A '%' that no two hex digits follow stays.
std::string PercentDecode(std::string_view text, bool keep_slashes = false);

}  // namespace torus::gateway

#endif  // TORUS_SERVICE_GATEWAY_PATH_TEMPLATE_H_
