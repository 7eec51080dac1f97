#include "cli/doctor_facts.h"

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "base/subprocess.h"
#include "cli/client.h"
#include "doctor/facts.h"

namespace torus::cli {
namespace {

constexpr char kScript[] =
#include "doctor_facts.inc"
    ;
constexpr std::chrono::seconds kSshTime{60};

Facts LinesOf(const std::string& text) {
  Facts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) facts.push_back(line);
  return facts;
}

// node NAME STATE; node NAME health HEALTH WHY
Facts FactsOf(const Json& node, const std::string& name) {
  const auto text = [&](const char* field) { return node.value(field, std::string()); };
  Facts facts{fmt::format("node {} {}", name, text("state"))};
  // What the doctor in the worker found is found again by looking there.
  const bool by_doctor = text("health") == "UNHEALTHY_TENSORFLOW" && node.contains("symptoms");
  if (const auto health = text("health"); !health.empty() && !by_doctor)
    facts.push_back(fmt::format("node {} health {} {}", name, health, text("healthDescription")));
  return facts;
}

// Logs in without asking anything, and has the worker's own Python look.
Origin FactsOf(const SshSession& session, const SshFlags& flags, const Worker& worker) {
  Origin origin{fmt::format("worker {}", worker.index), {}};
  std::vector<std::string> ssh{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"};
  for (const auto& option : SshOptions(session, flags, worker)) ssh.push_back(option);
  ssh.push_back(session.user + "@" + worker.address);
  ssh.push_back("python3 -");
  const auto said = RunChecked(ssh, {.input = kScript, .timeout = kSshTime});
  if (said) {
    origin.facts = LinesOf(*said);
  } else {
    std::string why(said.error().message());
    std::ranges::replace(why, '\n', ' ');
    origin.facts = {fmt::format("unreachable {} {}", worker.address, why)};
  }
  return origin;
}

}  // namespace

Result<Facts> FactsOfFile(const std::string& path) {
  TORUS_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  return LinesOf(text);
}

Result<Facts> FactsOfPython(const std::string& python) {
  const auto said = RunChecked({python, "-c", kScript});
  if (said) return LinesOf(*said);
  if (said.error().code() != Code::kNotFound) return std::unexpected(said.error());
  return NotFound("{} is not here; --python=PATH names the Python whose packages to look at",
                  python);
}

Result<std::vector<Origin>> FactsOfNode(const SshFlags& flags, const std::string& user) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  const auto& name = flags.name;
  const auto node = client.Get(name.ToString());
  if (!node && node.error().code() != Code::kNotFound) return std::unexpected(node.error());
  std::vector<Origin> origins{{"the service", {}}};
  if (!node) {
    origins[0].facts = {
        fmt::format("node {} missing in {} of {}", name.node, name.zone, name.project)};
    return origins;
  }
  origins[0].facts = FactsOf(*node, name.node);
  if (!CheckReady(*node, name).ok()) return origins;
  TORUS_ASSIGN_OR_RETURN(const SshSession session, PrepareSsh(flags, user));
  for (const auto& worker : session.workers) origins.push_back(FactsOf(session, flags, worker));
  return origins;
}

void AddFacts(doctor::Diagnosis& diagnosis, const Origin& origin) {
  for (const auto& fact : origin.facts) diagnosis.AddFact(origin.name, fact);
  for (const auto& fact : doctor::Conclusions(origin.facts)) diagnosis.AddFact(origin.name, fact);
}

}  // namespace torus::cli
