#include "worker/sandbox.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "worker/cgroups.h"
#include "worker/disk.h"
#include "worker/guest_files.h"
#include "worker/host_keys.h"
#include "worker/mounts.h"
#include "worker/network.h"
#include "worker/oci_config.h"
#include "worker/pci_tree.h"
#include "worker/pinned_build.h"
#include "worker/user_namespace.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kRuncTime = seconds(30);
constexpr auto kAccountsTime = seconds(20);
constexpr auto kSshdTime = seconds(10);
constexpr auto kGentleTime = seconds(5);
constexpr auto kUnmountTime = seconds(120);  // all that a VM has written goes to the disk
constexpr auto kShutdownScriptTime = seconds(65);

Result<std::string> BootId() { return ReadFile("/proc/sys/kernel/random/boot_id"); }

// The last line of what a VM said, as an operator may read it.
std::string LastWords(std::string_view text) {
  constexpr size_t kMost = 200;
  while (text.ends_with('\n')) text.remove_suffix(1);
  text.remove_prefix(text.rfind('\n') + 1);
  std::string line(text.substr(0, kMost));
  std::erase_if(line, [](unsigned char c) { return c < 0x20 || c > 0x7e; });
  return line;
}

// Whether a failure to connect is this host's own, not the other side's.
bool IsOwnTrouble(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
         error == EAGAIN || error == EADDRNOTAVAIL || error == EPERM || error == EACCES;
}

Status CannotAsk(const std::string& address, int error) {
  return Unavailable("cannot ask whether sshd answers at {}: {}", address, std::strerror(error));
}

// A number of a JSON file; 0 when there is none.
int64_t Number(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && found->is_number() ? found->get<int64_t>() : 0;
}

Json ReadJson(const std::string& path) {
  const auto text = ReadFile(path);
  return text ? Json::parse(*text, nullptr, false) : Json();
}

// Reaps what is ours (the worker is the subreaper of what runc leaves): the sandbox's first process
// dies only when every process in it is reaped, a zombie of ours among them.
bool IsGone(const ProcessIdentity& process) {
  ReapOrphans();
  return !IsAlive(process);
}

// Kills a program that a killed `runc exec` has left running, with its group. A number that is no
// child of this process any more is another's.
void KillLeftExec(const std::string& pid_file) {
  const auto text = ReadFile(pid_file);
  const pid_t pid = text ? static_cast<pid_t>(std::strtol(text->c_str(), nullptr, 10)) : 0;
  siginfo_t info;
  if (pid <= 1 || waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return;
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);
}

bool WaitGone(const ProcessIdentity& process, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!IsGone(process)) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

// Kills the runc processes that a dead worker left: those that were given this state folder.
void KillOrphanedRunc(const std::string& state_folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.empty() || name[0] < '0' || name[0] > '9') continue;
    const auto command = ReadFile(entry.path() / "cmdline");
    if (!command || !command->starts_with(std::string_view("runc\0--root\0", 12))) continue;
    if (command->substr(12).starts_with(state_folder + '\0'))
      kill(static_cast<pid_t>(std::stol(name)), SIGKILL);
  }
}

// The last error that runc logged, as it says it.
std::string RuncError(const std::string& log) {
  const auto text = ReadFile(log);
  std::string message;
  if (!text) return message;
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    const Json line = Json::parse(text->substr(begin, end - begin), nullptr, false);
    if (line.is_object() && line.value("level", "") == "error") message = line.value("msg", "");
    begin = end + 1;
  }
  return message;
}

// The kernel's bound on open files is the host's and all VMs' together: one VM could leave none to
// the host's users. What they cost is in each VM's memory, which is bounded; so systemd, too, lifts
// this one wherever it runs.
void LiftFileLimit() {
  constexpr char kPath[] = "/proc/sys/fs/file-max";
  constexpr int64_t kEnough = int64_t{1} << 40, kAll = std::numeric_limits<int64_t>::max();
  const auto present = ReadFile(kPath);
  if (present && std::strtoll(present->c_str(), nullptr, 10) >= kEnough) return;
  std::ofstream file(kPath);
  if (!(file << kAll << std::flush))
    spdlog::warn("cannot raise {}: a VM may use up all open files of the host's", kPath);
}

Resolvers HostResolvers() {
  const auto own = ReadFile("/etc/resolv.conf");
  const auto upstream = ReadFile("/run/systemd/resolve/resolv.conf");
  return UsableResolvers(own ? *own : "", upstream ? *upstream : "");
}

bool WaitFor(int fd, short events, Clock::time_point deadline) {
  pollfd poll_fd{fd, events, 0};
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return left > 0 && poll(&poll_fd, 1, static_cast<int>(left)) == 1;
}

}  // namespace

Sandbox::Sandbox(VmPaths paths) : paths_(std::move(paths)), host_(ReadHostSize()) {}

Limits Sandbox::LimitsOf(const VmSpec& vm) const {
  return ResolveLimits(host_, vm.memory_limit_bytes(), vm.cpu_limit_millicores(),
                       vm.process_limit(), vm.disk_size_bytes());
}

Result<std::optional<ProcessIdentity>> Sandbox::Live() const {
  const auto text = ReadFile(paths_.sandbox_file());
  if (!text && text.error().code() != Code::kNotFound) return Error(text.error());
  TORUS_ASSIGN_OR_RETURN(const std::string boot_id, BootId());
  const Json file = text ? Json::parse(*text, nullptr, false) : Json();
  if (!file.is_object() || file.value("boot_id", "") != boot_id) return std::nullopt;
  const ProcessIdentity init{Number(file, "pid"),
                             static_cast<uint64_t>(Number(file, "start_ticks"))};
  if (init.pid <= 0 || IsGone(init)) return std::nullopt;
  return init;
}

std::optional<ProcessIdentity> Sandbox::Init() const {
  // A state of before a reboot names processes that are long gone, by numbers in use again.
  const auto boot = ReadFile(paths_.run() + "/boot_id");
  if (!boot || boot != BootId()) return std::nullopt;
  const Json state =
      ReadJson(fmt::format("{}/{}/state.json", paths_.runc_root(), paths_.container()));
  const ProcessIdentity init{Number(state, "init_process_pid"),
                             static_cast<uint64_t>(Number(state, "init_process_start"))};
  if (init.pid <= 0 || !IsAlive(init)) return std::nullopt;
  return init;
}

Result<std::map<std::string, std::string>> Sandbox::HostKeys() const {
  return PublicHostKeys(paths_.host_keys());
}

Status Sandbox::Runc(std::vector<std::string> arguments, milliseconds timeout) const {
  const std::string log = paths_.log() + "/runc.log";
  unlink(log.c_str());
  std::vector<std::string> argv = {"runc",         "--root", paths_.runc_root(), "--log", log,
                                   "--log-format", "json"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  // What runc leaves running has its output: nothing of the host's may reach the VM that way.
  const auto result = RunSubprocess(argv, {.timeout = timeout, .capture = false});
  if (!result) {
    if (result.error().code() != Code::kNotFound) return result.error();
    return FailedPrecondition("runc is not installed; install it: apt-get install runc");
  }
  if (result->exit_code == 0) return {};
  return Internal("runc {} failed with exit code {}: {}", arguments[0], result->exit_code,
                  RuncError(log));
}

Status Sandbox::PrepareFiles(const VmSpec& vm, const Accounts& accounts) {
  for (const std::string& folder : {paths_.disk(), paths_.run(), paths_.log()})
    TORUS_RETURN_IF_ERROR(MakeFolders(folder, 0700));
  TORUS_RETURN_IF_ERROR(PinBuild(paths_.tpu(), vm.libtpu_path(), vm.engine_path()));
  TORUS_RETURN_IF_ERROR(EnsureHostKeys(paths_.host_keys(), vm.host_name()));
  const Resolvers resolvers = HostResolvers();
  if (resolvers.addresses.empty())
    spdlog::warn("/etc/resolv.conf names no resolver that a VM can reach");
  auto files = GuestFiles(vm, accounts, LimitsOf(vm).memory, resolvers.file);
  TORUS_ASSIGN_OR_RETURN(files["sshd_config"], ImageSshdConfig(vm.image_root()));
  TORUS_RETURN_IF_ERROR(WriteGuestFiles(paths_.share(), files, vm.uid_base()));
  if (const auto* type = hardware::Catalogue::BuiltIn().FindAcceleratorType(vm.accelerator_type()))
    TORUS_RETURN_IF_ERROR(WritePciTree(paths_.share(), *type, vm.uid_base()));
  return CopyHostKeys(paths_.host_keys(), paths_.share() + "/hostkeys", vm.uid_base());
}

Status Sandbox::Create(const VmSpec& vm) {
  TORUS_ASSIGN_OR_RETURN(const auto space, UserNamespace::Make(vm.uid_base()));
  TORUS_ASSIGN_OR_RETURN(const Stage stage, MountStage({.image_root = vm.image_root(),
                                                        .disk = paths_.disk(),
                                                        .disk_bytes = LimitsOf(vm).disk,
                                                        .share = paths_.share(),
                                                        .tpu = paths_.tpu(),
                                                        .uid_base = vm.uid_base(),
                                                        .user_namespace = space.fd()}));
  const Json config = OciConfig({.host_name = vm.host_name(),
                                 .root = stage.root,
                                 .share = stage.share(),
                                 .tpu = stage.tpu(),
                                 .cgroup = paths_.cgroup(),
                                 .uid_base = vm.uid_base(),
                                 .user_namespace = space.path(),
                                 .limits = LimitsOf(vm),
                                 .has_ipv6 = host_.has_ipv6,
                                 .has_pci = host_.has_pci});
  const auto boot_id = BootId();
  Status status = boot_id ? WriteFile(paths_.run() + "/boot_id", *boot_id) : boot_id.error();
  if (status.ok()) status = MakeFolders(paths_.bundle(), 0700);
  if (status.ok()) status = WriteFile(paths_.bundle() + "/config.json", DumpJson(config, 1));
  FaultPoint("worker.config");
  if (status.ok())
    status = Runc({"create", "--bundle", paths_.bundle(), "--pid-file", paths_.run() + "/init.pid",
                   paths_.container()},
                  kRuncTime);
  UnmountStage(stage);
  FaultPoint("worker.create");
  return status;
}

NetworkPlan Sandbox::PlanOf(const VmSpec& vm, int64_t pid) const {
  NetworkPlan plan{.address = vm.address(),
                   .resolvers = HostResolvers().addresses,
                   .mtu = host_.mtu,
                   .sandbox_pid = pid};
  for (const std::string& peer : vm.worker_addresses())
    if (peer != vm.address()) plan.peers.push_back(peer);
  return plan;
}

Status Sandbox::KeepBounds(const VmSpec& vm, const ProcessIdentity& init) const {
  return KeepRules(paths_, PlanOf(vm, init.pid));
}

Status Sandbox::Boot(const VmSpec& vm, const std::function<Status(int64_t pid)>& plumbed) {
  const auto init = Init();
  if (!init) return Internal("the sandbox's first process is gone before it was started");
  TORUS_RETURN_IF_ERROR(Plumb(paths_, PlanOf(vm, init->pid)));
  LiftFileLimit();
  TORUS_RETURN_IF_ERROR(LimitTcpMemory(paths_.cgroup(), LimitsOf(vm).memory / 8));
  TORUS_RETURN_IF_ERROR(plumbed(init->pid));
  FaultPoint("worker.plumbed");
  TORUS_RETURN_IF_ERROR(Runc({"start", paths_.container()}, kRuncTime));
  FaultPoint("worker.start");
  TORUS_ASSIGN_OR_RETURN(const std::string boot_id, BootId());
  const Json file = {{"pid", init->pid}, {"start_ticks", init->start_ticks}, {"boot_id", boot_id}};
  return WriteFile(paths_.sandbox_file(), DumpJson(file), {.mode = 0600});
}

Status Sandbox::Start(const VmSpec& vm, const Accounts& accounts,
                      const std::function<Status(int64_t pid)>& plumbed) {
  if (vm.uid_base() == 0)
    return InvalidArgument("the VM has no uid range of its own; its root would be the host's");
  TORUS_RETURN_IF_ERROR(CheckPlan({.address = vm.address()}));
  TORUS_RETURN_IF_ERROR(TakeDown(/*gently=*/false));
  TORUS_RETURN_IF_ERROR(PrepareFiles(vm, accounts));
  FaultPoint("worker.files");
  Status status = Create(vm);
  if (status.ok()) status = Boot(vm, plumbed);
  if (status.ok()) return {};
  if (const Status down = TakeDown(/*gently=*/false); !down.ok())
    spdlog::error("taking down a sandbox that failed to start: {}", down.ToString());
  return status;
}

Status Sandbox::Refresh(const VmSpec& vm, const Accounts& accounts) {
  TORUS_RETURN_IF_ERROR(PrepareFiles(vm, accounts));
  FaultPoint("worker.refresh_files");
  const Status status = MakeUsers();
  FaultPoint("worker.refresh");
  // The keys are in effect; what the VM's owner did to its shell or useradd is no failure of ours.
  if (!status.ok()) spdlog::warn("making users in the VM: {}", LastWords(status.message()));
  return {};
}

Result<std::string> Sandbox::Exec(const std::string& script, milliseconds timeout) const {
  const std::string pid_file = paths_.run() + "/exec.pid";
  unlink(pid_file.c_str());
  auto output = RunChecked({"runc", "--root", paths_.runc_root(), "exec", "--pid-file", pid_file,
                            paths_.container(), "/bin/sh", "/run/torus/" + script},
                           {.timeout = timeout});
  if (!output && output.error().code() == Code::kDeadlineExceeded) KillLeftExec(pid_file);
  return output;
}

Status Sandbox::MakeUsers() const {
  Status status;
  for (int tries = 0; tries < 3; ++tries) {
    const auto made = Exec("accounts", kAccountsTime);
    if (made) return {};
    status = made.error();
    if (status.code() == Code::kDeadlineExceeded) break;
  }
  return status;
}

void Sandbox::StopGently(const ProcessIdentity& init) const {
  std::error_code error;
  const bool has_script = fs::exists(paths_.share() + "/shutdown-script", error);
  // A number that has meanwhile gone to another process must not be hit.
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, init.pid, 0)));
  if (!pidfd || !IsAlive(init)) return;
  syscall(SYS_pidfd_send_signal, pidfd.get(), SIGTERM, nullptr, 0);
  WaitGone(init, has_script ? kShutdownScriptTime : kGentleTime);
}

Status Sandbox::KillProcesses() {
  KillOrphanedRunc(paths_.runc_root());
  TORUS_ASSIGN_OR_RETURN(const auto live, Live());
  for (const auto& init : {live, Init()}) {
    if (!init || !IsAlive(*init)) continue;
    kill(static_cast<pid_t>(init->pid), SIGKILL);
    if (!WaitGone(*init, seconds(10)))
      return DeadlineExceeded("the sandbox's first process {} does not die", init->pid);
  }
  FaultPoint("worker.killed");
  std::error_code error;
  if (fs::exists(fmt::format("{}/{}/state.json", paths_.runc_root(), paths_.container()), error)) {
    // Best effort: what matters of it is done again below, and the state folder is removed.
    if (const Status status = Runc({"delete", "-f", paths_.container()}, kRuncTime); !status.ok())
      spdlog::warn("{}", status.message());
  }
  FaultPoint("worker.deleted");
  return RemoveCgroups(paths_.cgroup());
}

Status Sandbox::TakeDown(bool gently) {
  TORUS_ASSIGN_OR_RETURN(const auto live, Live());
  if (live && gently) StopGently(*live);
  TORUS_RETURN_IF_ERROR(KillProcesses());
  FaultPoint("worker.cgroups");
  TORUS_RETURN_IF_ERROR(AwaitUnmounted(paths_.disk_file(), kUnmountTime));
  TORUS_RETURN_IF_ERROR(Unplumb(paths_));
  FaultPoint("worker.unplumbed");
  for (const std::string& path : {paths_.runc_root(), paths_.bundle(), paths_.run() + "/init.pid",
                                  paths_.share(), paths_.sandbox_file()})
    TORUS_RETURN_IF_ERROR(RemoveTree(path));
  FaultPoint("worker.down");
  return {};
}

Status Sandbox::RemoveFiles() {
  TORUS_RETURN_IF_ERROR(RemoveTree(paths_.disk()));
  FaultPoint("worker.disk_removed");
  TORUS_RETURN_IF_ERROR(RemoveTree(paths_.dir));
  FaultPoint("worker.folder_removed");
  const std::string parent = fs::path(paths_.dir).parent_path();
  if (rmdir(parent.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
    return ErrnoStatus(errno, "remove", parent);
  return {};
}

std::string Sandbox::RestartSshd() const {
  const auto output = Exec("sshd-again", kSshdTime);
  if (output) return LastWords(*output);
  return "no command can be run in the VM: " + LastWords(output.error().message());
}

Result<bool> Sandbox::SshAnswers(const std::string& address, milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const Fd socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd) return Error(CannotAsk(address, errno));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(22);
  inet_pton(AF_INET, address.c_str(), &name.sin_addr);
  if (connect(socket_fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) {
    int error = 0;
    socklen_t size = sizeof(error);
    if (IsOwnTrouble(errno)) return Error(CannotAsk(address, errno));
    if (errno != EINPROGRESS || !WaitFor(socket_fd.get(), POLLOUT, deadline)) return false;
    if (getsockopt(socket_fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
      return false;
  }
  char greeting[4];
  size_t got = 0;
  while (got < sizeof(greeting) && WaitFor(socket_fd.get(), POLLIN, deadline)) {
    const ssize_t n = recv(socket_fd.get(), greeting + got, sizeof(greeting) - got, 0);
    if (n <= 0) return false;
    got += static_cast<size_t>(n);
  }
  return got == sizeof(greeting) && std::string_view(greeting, 4) == "SSH-";
}

}  // namespace torus::worker
