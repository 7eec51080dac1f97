#include "worker/watcher.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/json.h"
#include "doctor/diagnosis.h"
#include "slice/counters.h"
#include "worker/below.h"
#include "worker/vm_counters.h"

namespace torus::worker {
namespace {

constexpr int64_t kMaxLog = 1 << 20;
constexpr size_t kMostFindings = 32;  // of a VM: a node's record holds them

int64_t UnixNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string TextOf(const doctor::Finding& finding) {
  return ValidUtf8(fmt::format("{}\n{}", finding.cause, finding.cure));
}

// A line of the VM's log.
std::string LineOf(const Finding& finding, std::string_view verb) {
  std::string text = finding.text();
  std::ranges::replace(text, '\n', ' ');
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {} {}: {}\n",
                     std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()),
                     verb, finding.id(), text);
}

// What the process's user reads where they started it.
void SayOnTerminal(int root, int terminal, const Finding& finding) {
  if (terminal == 0) return;
  const Fd file = OpenBelow(root, fmt::format("dev/pts/{}", terminal - 1), O_WRONLY);
  struct stat info;
  if (!file || fstat(file.get(), &info) != 0 || !S_ISCHR(info.st_mode) ||
      !IsPseudoTerminal(info.st_rdev))
    return;
  std::string text;
  for (const char c : finding.text()) text += c == '\n' ? "\r\n  " : std::string(1, c);
  text = fmt::format("\r\n[torus doctor] {}\r\n  ({}; /{} has more)\r\n", text, finding.id(),
                     kDoctorLog);
  [[maybe_unused]] const ssize_t n = write(file.get(), text.data(), text.size());
}

std::vector<doctor::Finding> Diagnose(const std::vector<std::string>& facts) {
  doctor::Diagnosis diagnosis(doctor::Knowledge::OfFacts());
  diagnosis.AddFact("this VM", "tpu 1");  // it has some, however many
  for (const auto& fact : facts) diagnosis.AddFact("this VM", fact);
  return diagnosis.Findings();
}

}  // namespace

bool Watcher::Look(const ProcessIdentity& init, uint32_t root_uid) {
  const std::string root_path = fmt::format("/proc/{}/root", init.pid);
  const Fd root(open(root_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return false;
  const int64_t now = slice::CountersNow();
  const auto pages = ReadVmCounters(root_path, now);
  decltype(histories_) histories;
  std::map<Key, Finding> findings;
  std::string log;
  for (const auto& process : processes_.Look(init)) {
    UseHistory history = std::move(histories_[process.host]);
    AddLook(UseOf(pages, process.pid, now), history);
    for (const auto& found : Diagnose(FactsOf(process, history))) {
      const Key key{process.host, found.id};
      if (findings.size() >= kMostFindings) break;
      if (const auto known = findings_.find(key); known != findings_.end()) {
        findings.insert(*known);
        continue;
      }
      Finding& finding = findings[key];
      finding.set_id(found.id);
      finding.set_text(TextOf(found));
      finding.set_is_error(found.severity == doctor::Severity::kError);
      finding.set_since(UnixNow());
      spdlog::info("found in the VM: {} {}", found.id, found.cause);
      log += LineOf(finding, "found");
      SayOnTerminal(root.get(), process.terminal, finding);
    }
    histories[process.host] = std::move(history);
  }
  for (const auto& [key, finding] : findings_)
    if (!findings.contains(key)) log += LineOf(finding, "over ");
  if (!log.empty()) AppendBelow(root.get(), kDoctorLog, log, root_uid, kMaxLog);
  histories_ = std::move(histories);
  findings_ = std::move(findings);
  return !log.empty();
}

std::vector<Finding> Watcher::findings() const {
  std::vector<Finding> all;
  for (const auto& [key, finding] : findings_) all.push_back(finding);
  std::ranges::stable_sort(all, {}, &Finding::since);
  return all;
}

}  // namespace torus::worker
