#include "worker/accounts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <expected>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"

namespace torus::worker {
namespace {

constexpr size_t kMaxLine = 16 * 1024;

bool IsKeyType(std::string_view word) {
  return word.starts_with("ssh-") || word.starts_with("ecdsa-sha2-") || word.starts_with("sk-");
}

// Whether the line has a key: its type, then its base64, perhaps after options.
bool HasKey(std::string_view line) {
  std::istringstream stream{std::string(line)};
  std::string word, next;
  stream >> word;
  while (stream >> next) {
    if (IsKeyType(word) && next.starts_with("AAAA")) return true;
    word = next;
  }
  return false;
}

bool IsPrintable(std::string_view line) {
  return std::ranges::all_of(line,
                             [](unsigned char c) { return (c >= 0x20 && c != 0x7f) || c == '\t'; });
}

// When a key ends; none when it does not. A reason when that cannot be read.
std::expected<std::optional<WallTime>, std::string> Expiry(std::string_view key) {
  const size_t mark = key.find(" google-ssh ");
  if (mark == std::string_view::npos) return std::nullopt;
  const auto details = nlohmann::json::parse(key.substr(mark + 12), nullptr, false);
  if (!details.is_object()) return std::unexpected("what follows google-ssh is not JSON");
  const auto expire = details.find("expireOn");
  if (expire == details.end()) return std::nullopt;
  if (!expire->is_string()) return std::unexpected("expireOn is not a string");
  const auto time = ParseTime(expire->get<std::string>());
  if (!time) return std::unexpected("expireOn is not a time");
  return time;
}

class Reader {
 public:
  Reader(WallTime now, Accounts& accounts) : now_(now), accounts_(accounts) {}

  // Reads the lines that one attribute holds.
  void Read(const Metadata& metadata, const std::string& attribute, std::string_view owner) {
    const auto found = metadata.find(attribute);
    if (found == metadata.end()) return;
    std::istringstream stream(found->second);
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      const std::string reason = Add(Trim(line));
      if (!reason.empty())
        accounts_.skipped.push_back(
            fmt::format("{}'s {}, line {}: {}", owner, attribute, number, reason));
    }
  }

 private:
  // Takes one line; says why not, if not.
  std::string Add(std::string_view line) {
    if (line.empty() || line.starts_with('#')) return {};
    if (line.size() > kMaxLine) return "longer than 16 KiB";
    if (!IsPrintable(line)) return "has control characters";
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return "not USER:KEY";
    const std::string_view user = Trim(line.substr(0, colon));
    const std::string_view key = Trim(line.substr(colon + 1));
    if (!IsUserName(user)) return "not a user's name";
    if (!HasKey(key)) return "not a public key";
    const auto expiry = Expiry(key);
    if (!expiry) return expiry.error();
    if (*expiry) {
      if (**expiry <= now_) return "expired";
      if (!accounts_.next_expiry || **expiry < *accounts_.next_expiry)
        accounts_.next_expiry = **expiry;
    }
    auto& keys = accounts_.keys[std::string(user)];
    if (std::ranges::find(keys, key) == keys.end()) keys.emplace_back(key);
    return {};
  }

  const WallTime now_;
  Accounts& accounts_;
};

bool IsTrue(const Metadata& metadata, const std::string& attribute) {
  const auto found = metadata.find(attribute);
  if (found == metadata.end()) return false;
  std::string value(Trim(found->second));
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
  return value == "true" || value == "1" || value == "yes" || value == "y";
}

}  // namespace

bool IsUserName(std::string_view name) {
  if (name.empty() || name.size() > 32) return false;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return letter(name[0]) && std::ranges::all_of(name, [&](char c) {
           return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

std::optional<WallTime> ParseTime(std::string_view text) {
  const std::string copy(text);
  std::tm time{};
  const char* zone = strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (zone == nullptr) return std::nullopt;
  if (*zone == '.') {
    ++zone;
    while (*zone >= '0' && *zone <= '9') ++zone;
  }
  int offset_seconds = 0;
  if (std::string_view(zone) != "Z") {
    char sign = 0;
    int hours = 0, minutes = 0, length = 0;
    const bool plain = std::sscanf(zone, "%c%2d%2d%n", &sign, &hours, &minutes, &length) == 3;
    if (!plain && std::sscanf(zone, "%c%2d:%2d%n", &sign, &hours, &minutes, &length) != 3)
      return std::nullopt;
    if ((sign != '+' && sign != '-') || zone[length] != '\0') return std::nullopt;
    offset_seconds = (hours * 60 + minutes) * 60 * (sign == '-' ? -1 : 1);
  }
  return WallTime(std::chrono::seconds(timegm(&time) - offset_seconds));
}

WallTime WallNow() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

Accounts ReadAccounts(const Metadata& node, const Metadata& project, WallTime now) {
  Accounts accounts;
  Reader reader(now, accounts);
  reader.Read(node, "ssh-keys", "the node");
  reader.Read(node, "sshKeys", "the node");
  if (!node.contains("sshKeys") && !IsTrue(node, "block-project-ssh-keys")) {
    reader.Read(project, "ssh-keys", "the project");
    reader.Read(project, "sshKeys", "the project");
  }
  return accounts;
}

}  // namespace torus::worker
