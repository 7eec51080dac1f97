#include "worker/vm_processes.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "slice/counters.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxCommand = 200;
constexpr unsigned kPtsMajor = 136, kPtsLastMajor = 143;  // 256 terminals each
constexpr char kLibtpu[] = "libtpu.so";
constexpr char kWorkerPort[] = ":2116";  // 8470
// As src/cli/doctor_facts.py has them, for machines without a worker of ours.
constexpr std::array kLibraries{
    std::pair{"libtensorflow_cc.so", "tensorflow"}, std::pair{"_pywrap_tensorflow", "tensorflow"},
    std::pair{"libjax_common.so", "jax"}, std::pair{"xla_extension.so", "jax"},
    std::pair{"_XLAC", "torch-xla"}};

std::string LinkOf(const std::string& path) {
  std::error_code error;
  return fs::read_symlink(path, error);
}

std::string TextOf(const std::string& path) { return ReadFile(path).value_or(""); }

double Uptime() {
  double seconds = 0;
  std::ifstream("/proc/uptime") >> seconds;
  return seconds;
}

int64_t SecondsSince(uint64_t start_ticks) {
  static const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<int64_t>(std::max(0.0, Uptime() - static_cast<double>(start_ticks) / ticks));
}

bool AsksAWorker(const std::string& process) {
  auto sockets = SocketsToWorkers(TextOf(process + "/net/tcp"));
  for (auto& other : SocketsToWorkers(TextOf(process + "/net/tcp6")))
    sockets.push_back(std::move(other));
  if (sockets.empty()) return false;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process + "/fd", error)) {
    const std::string target = LinkOf(entry.path());
    if (std::ranges::any_of(sockets, [&](const std::string& inode) {
          return target == "socket:[" + inode + "]";
        }))
      return true;
  }
  return false;
}

}  // namespace

std::string FrameworkIn(const std::string& maps) {
  for (const auto& [library, framework] : kLibraries)
    if (maps.find(library) != std::string::npos) return framework;
  return {};
}

int64_t InnermostPid(const std::string& status) {
  const size_t at = status.find("\nNSpid:");
  if (at == std::string::npos) return 0;
  std::istringstream line(status.substr(at + 7, status.find('\n', at + 1) - at - 7));
  int64_t pid = 0;
  while (line >> pid) {
  }
  return pid;
}

bool IsPseudoTerminal(dev_t device) {
  return major(device) >= kPtsMajor && major(device) <= kPtsLastMajor;
}

int TerminalOf(const std::string& stat) {
  const size_t after_name = stat.rfind(") ");
  if (after_name == std::string::npos) return 0;
  std::istringstream fields(stat.substr(after_name + 2));
  std::string state;
  int64_t parent = 0, group = 0, session = 0, device = 0;
  if (!(fields >> state >> parent >> group >> session >> device)) return 0;
  const auto terminal = static_cast<dev_t>(device);
  if (!IsPseudoTerminal(terminal)) return 0;
  return static_cast<int>((major(terminal) - kPtsMajor) * 256 + minor(terminal) + 1);
}

std::vector<std::string> SocketsToWorkers(const std::string& table) {
  std::vector<std::string> inodes;
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);  // the head
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::vector<std::string> fields(10);
    for (auto& field : fields) words >> field;
    if (fields[2].ends_with(kWorkerPort)) inodes.push_back(fields[9]);
  }
  return inodes;
}

std::optional<VmProcess> VmProcesses::LookAt(int64_t pid) {
  const std::string process = fmt::format("/proc/{}", pid);
  const std::string stat = TextOf(process + "/stat");
  const auto start = slice::StartTicks(stat);
  if (!start) return std::nullopt;
  const int64_t seconds = SecondsSince(*start);
  Skipped& known = skipped_[pid];
  if (known.start_ticks == *start && seconds < known.next_seconds) return std::nullopt;
  const std::string maps = TextOf(process + "/maps");
  std::string framework = FrameworkIn(maps);
  if (framework.empty()) {
    // A program loads its framework when it begins; one that has not by now may yet.
    known = {*start, seconds + seconds / 8};
    return std::nullopt;
  }
  skipped_.erase(pid);
  const Reach reach = maps.find(kLibtpu) != std::string::npos ? Reach::kLibtpu
                      : AsksAWorker(process)                  ? Reach::kGrpc
                                                              : Reach::kNone;
  return VmProcess{.host = {pid, *start},
                   .pid = InnermostPid(TextOf(process + "/status")),
                   .seconds = seconds,
                   .framework = std::move(framework),
                   .reach = reach,
                   .command = CommandLine(TextOf(process + "/cmdline")).substr(0, kMaxCommand),
                   .terminal = TerminalOf(stat)};
}

std::vector<VmProcess> VmProcesses::Look(const ProcessIdentity& init) {
  std::vector<VmProcess> found;
  const std::string space = LinkOf(fmt::format("/proc/{}/ns/pid", init.pid));
  if (space.empty()) return found;
  std::map<int64_t, Skipped> living;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (LinkOf(entry.path() / "ns/pid") != space) continue;
    const int64_t pid = std::stoll(name);
    if (auto process = LookAt(pid)) found.push_back(*std::move(process));
    if (const auto skipped = skipped_.find(pid); skipped != skipped_.end()) living.insert(*skipped);
  }
  skipped_ = std::move(living);
  return found;
}

}  // namespace torus::worker
