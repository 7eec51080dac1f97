#include "doctor/facts.h"

#include <fmt/format.h>

#include <map>
#include <sstream>

namespace torus::doctor {
namespace {

// "2.9" of "2.9.0+cpu".
std::string Minor(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

}  // namespace

std::vector<std::string> Conclusions(const std::vector<std::string>& facts) {
  std::map<std::string, std::string> packages;
  for (const auto& fact : facts) {
    std::istringstream words(fact);
    std::string kind, name, version;
    if (words >> kind >> name >> version && kind == "package") packages[name] = version;
  }
  std::vector<std::string> conclusions;
  // torch_xla's metadata does not name the torch that it was built for.
  const auto torch = packages.find("torch"), xla = packages.find("torch-xla");
  if (torch != packages.end() && xla != packages.end() &&
      Minor(torch->second) != Minor(xla->second))
    conclusions.push_back(fmt::format("pair torch {} torch-xla {}", torch->second, xla->second));
  return conclusions;
}

}  // namespace torus::doctor
