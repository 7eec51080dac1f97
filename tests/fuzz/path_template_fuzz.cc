// Path templates: "TEMPLATE\nPATH". A match binds each variable once, to text that, put in the
// variable's place, gives a path that binds the same.
#include "fuzz.h"
#include "service/gateway/path_template.h"

namespace torus::fuzz {
namespace {

using gateway::PathTemplate;

std::string Encode(std::string_view value, bool several) {
  std::string encoded;
  for (const char c : value) {
    if (c == '%' || c == ':' || (c == '/' && !several))
      encoded += fmt::format("%{:02X}", c);
    else
      encoded += c;
  }
  return encoded;
}

// The path that a template makes of its variables' values.
std::string Fill(std::string_view text, const PathTemplate::Bindings& bindings) {
  std::string path;
  size_t variable = 0;
  while (!text.empty()) {
    path += TakeUntil("{", &text);
    if (text.empty()) break;
    const std::string_view inside = TakeUntil("}", &text);
    const size_t equals = inside.find('=');
    const std::string_view pattern =
        equals == std::string_view::npos ? "*" : inside.substr(equals + 1);
    const bool several = pattern.find('/') != std::string_view::npos || pattern == "**";
    Check(variable < bindings.size(), "every variable is bound");
    Check(bindings[variable].first == inside.substr(0, equals), "{} is the next variable",
          bindings[variable].first);
    path += Encode(bindings[variable++].second, several);
  }
  Check(variable == bindings.size(), "only variables are bound");
  return path;
}

}  // namespace

void Fuzz(std::string_view input) {
  const std::string_view text = TakeUntil("\n", &input);
  const auto parsed = PathTemplate::Parse(text);
  if (!parsed) return;
  // Literals that do not look in a path as they do in the template: no API has such.
  if (text.find('%') != text.npos || text.substr(0, text.rfind('}')).find(':') != text.npos) return;
  const auto bindings = parsed->Match(input);
  if (!bindings) return;
  const std::string filled = Fill(text, *bindings);
  const auto again = parsed->Match(filled);
  Check(again.has_value(), "{} matches {} as {} does", text, filled, input);
  Check(*again == *bindings, "{} binds alike in {} and {}", text, filled, input);
}

}  // namespace torus::fuzz
