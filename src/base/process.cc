#include "base/process.h"

#include <sstream>

#include "base/file.h"

namespace torus {

Result<std::optional<ProcessIdentity>> FindProcess(int64_t pid) {
  if (pid <= 0) return std::nullopt;
  const auto stat = ReadFile(fmt::format("/proc/{}/stat", pid));
  if (!stat && stat.error().code() != Code::kNotFound) return Error(stat.error());
  if (!stat) return std::nullopt;
  // The name, field 2, stands in parentheses and may hold anything.
  const size_t after_name = stat->rfind(')');
  if (after_name == std::string::npos) return std::nullopt;
  std::istringstream fields(stat->substr(after_name + 1));
  std::string field;
  ProcessIdentity identity{pid, 0};
  for (int number = 3; number < 22 && fields >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
  }
  if (!(fields >> identity.start_ticks)) return std::nullopt;
  return identity;
}

std::optional<ProcessIdentity> IdentifyProcess(int64_t pid) {
  const auto found = FindProcess(pid);
  return found ? *found : std::nullopt;
}

bool IsAlive(const ProcessIdentity& process) {
  const auto found = FindProcess(process.pid);
  return !found || *found == process;
}

std::string FormatIdentity(const ProcessIdentity& process) {
  return fmt::format("{} {}\n", process.pid, process.start_ticks);
}

std::optional<ProcessIdentity> ParseIdentity(std::string_view text) {
  std::istringstream fields{std::string(text)};
  ProcessIdentity identity;
  if (!(fields >> identity.pid >> identity.start_ticks) || identity.pid <= 0) return std::nullopt;
  return identity;
}

std::optional<ProcessIdentity> LivingProcessOf(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text) return std::nullopt;
  const auto identity = ParseIdentity(*text);
  return identity && IsAlive(*identity) ? identity : std::nullopt;
}

}  // namespace torus
