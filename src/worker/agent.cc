#include "worker/agent.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <thread>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/subprocess.h"

namespace torus::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr auto kTick = milliseconds(500);    // how soon a dead sandbox is noticed
constexpr auto kLook = seconds(5);           // between looks at a running sshd
constexpr int kSilentLooks = 6;              // then sshd is started again
constexpr auto kSshTime = seconds(30);       // for sshd to come up
constexpr auto kSshAgainTime = seconds(10);  // the same, in a VM that has run
constexpr auto kHealthyAfter = seconds(60);  // of running: failures are forgotten

// What an operator is told of the keys that do not count; empty: all do.
std::string KeysNote(const std::vector<std::string>& skipped) {
  constexpr size_t kMost = 3;
  std::string note;
  for (size_t i = 0; i < std::min(kMost, skipped.size()); ++i)
    note += (i == 0 ? "left out of ssh-keys: " : "; ") + skipped[i];
  if (skipped.size() > kMost) note += fmt::format("; and {} more", skipped.size() - kMost);
  return note;
}

}  // namespace

Agent::Agent(Sandbox& sandbox, std::function<void(Observed)> report)
    : sandbox_(sandbox),
      report_(std::move(report)),
      metadata_([this](const GuestAttributes& attributes) { TakeAttributes(attributes); }) {}

void Agent::SetOrder(const WorkerOrder& order) {
  const MutexLock lock(mutex_);
  if (order_ && order.generation() < order_->generation()) return;
  order_ = order;
  wake_.NotifyAll();
}

bool Agent::Superseded(int64_t generation) {
  const MutexLock lock(mutex_);
  return order_->generation() != generation;
}

void Agent::Run() {
  int64_t seen = -1;
  for (;;) {
    {
      MutexLock lock(mutex_);
      const auto tick = Clock::now() + kTick;
      while ((!order_ || order_->generation() == seen) && wake_.WaitUntil(lock, tick)) {
      }
      if (!order_) continue;
      // A new order is tried at once, whatever the last one's failures.
      if (order_->generation() != seen) not_before_ = SteadyTime();
      seen = order_->generation();
    }
    // Whatever a killed `runc exec` left to us has ended meanwhile.
    ReapOrphans();
    if (Step()) return;
    // Once a tick at most, however often the VM writes.
    ReportAttributes();
  }
}

bool Agent::Step() {
  WorkerOrder order;
  {
    const MutexLock lock(mutex_);
    order = *order_;
  }
  const auto looked = sandbox_.Live();
  if (!looked) {
    // What cannot be seen is not taken for dead; and it passes.
    if (Clock::now() >= not_before_)
      Fail(order, Status(Code::kUnavailable, looked.error().message()));
    return false;
  }
  const auto& live = *looked;
  const Action action = Decide({.desired = order.desired(),
                                .ordered = order.generation(),
                                .in_effect = in_effect_,
                                .live = live.has_value(),
                                .refresh_due = next_expiry_ && *next_expiry_ <= WallNow(),
                                .now = Clock::now(),
                                .not_before = not_before_});
  Status status;
  switch (action) {
    case Action::kNothing:
      if (order.desired() == RUN && live) Watch(order, *live);
      return false;
    case Action::kStart:
      status = StartVm(order);
      break;
    case Action::kRefresh:
      status = RefreshVm(order);
      break;
    case Action::kStop:
      Report(PREPARING, "stopping the VM");
      StopServers();
      status = sandbox_.TakeDown(/*gently=*/true);
      if (status.ok()) {
        in_effect_ = order.generation();
        Report(STOPPED, "");
      }
      break;
    case Action::kRemove:
      status = RemoveVm();
      if (status.ok()) {
        in_effect_ = order.generation();
        Report(DELETED, "");
        return true;
      }
      break;
  }
  if (!status.ok()) Fail(order, status);
  return false;
}

Status Agent::StartVm(const WorkerOrder& order) {
  const VmSpec& vm = order.vm();
  if (in_effect_ == order.generation()) {
    spdlog::warn("the VM's first process is gone; starting it again");
    if (Clock::now() - running_since_ < kHealthyAfter)
      ++failures_;
    else
      failures_ = 0;
    in_effect_ = -1;
    if (failures_ > 0) {
      not_before_ = Clock::now() + BackOff(failures_);
      Report(PREPARING, "the VM has died; starting it again soon");
      return {};
    }
  }
  Report(PREPARING, "starting the VM");
  sshd_lost_ = false;
  StopServers();
  served_pid_ = 0;
  const auto begin = Clock::now();
  TORUS_RETURN_IF_ERROR(
      sandbox_.Start(vm, ReadKeys(vm), [&](int64_t pid) { return Serve(vm, pid); }));
  spdlog::info("started the VM at {} in {} ms", vm.address(),
               std::chrono::duration_cast<milliseconds>(Clock::now() - begin).count());
  FaultPoint("worker.started");
  return AwaitSsh(order);
}

Status Agent::RefreshVm(const WorkerOrder& order) {
  TORUS_ASSIGN_OR_RETURN(const auto live, sandbox_.Live());
  if (!live) return Unavailable("the VM's first process is gone");
  TORUS_RETURN_IF_ERROR(Serve(order.vm(), live->pid));
  TORUS_RETURN_IF_ERROR(sandbox_.Refresh(order.vm(), ReadKeys(order.vm())));
  return AwaitSsh(order);
}

Status Agent::AwaitSsh(const WorkerOrder& order) {
  const std::string& address = order.vm().address();
  const auto limit = sshd_lost_ ? kSshAgainTime : kSshTime;
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const auto answers = Sandbox::SshAnswers(address, seconds(1));
    if (answers && *answers) break;
    // Stopping must not wait for an sshd that does not come.
    if (Superseded(order.generation())) return {};
    TORUS_ASSIGN_OR_RETURN(const auto live, sandbox_.Live());
    if (!live) return Unavailable("the VM ended while it started");
    if (Clock::now() < deadline) {
      std::this_thread::sleep_for(answers ? milliseconds(3) : milliseconds(200));
      continue;
    }
    if (!answers) return answers.error();
    const std::string words = sandbox_.RestartSshd();
    return Unavailable(
        "sshd in the VM has not answered at {} for {} s, and is started again; all else in the VM "
        "runs on. It may be that port 22 is taken, memory or disk is full, or sshd is damaged{}{}: "
        "see /var/log/auth.log in the VM. If it does not come back, stop the node and start it; "
        "its disk is kept",
        address, limit.count(), words.empty() ? "" : "; last it said: ", words);
  }
  in_effect_ = order.generation();
  silent_looks_ = 0;
  sshd_lost_ = false;
  running_since_ = Clock::now();
  next_look_ = Clock::now() + kLook;
  Report(RUNNING, KeysNote(skipped_));
  return {};
}

void Agent::Watch(const WorkerOrder& order, const ProcessIdentity& init) {
  if (Clock::now() < next_look_) return;
  next_look_ = Clock::now() + kLook;
  if (const Status kept = sandbox_.KeepBounds(order.vm(), init); !kept.ok())
    spdlog::error("the VM's rules are gone and cannot be put back: {}", kept.ToString());
  // A program of the VM's may have had the port.
  if (!metrics_.is_listening()) metrics_.Listen(init.pid).ok();
  RefuseTensorFlow(order.vm(), init.pid);
  Diagnose(order.vm(), init);
  const auto answers = Sandbox::SshAnswers(order.vm().address(), kLook);
  const std::string untold = answers ? "" : answers.error().message();
  if (!answers && untold != untold_) spdlog::warn("{}", untold);
  untold_ = untold;
  if (!answers) return;
  if (*answers) {
    silent_looks_ = 0;
    if (Clock::now() - running_since_ >= kHealthyAfter) failures_ = 0;
    return;
  }
  if (++silent_looks_ < kSilentLooks || Superseded(order.generation())) return;
  // The user's job lives though sshd does not: the VM is not taken down for it.
  const std::string words = sandbox_.RestartSshd();
  spdlog::warn("sshd has not answered {} times and is started again; last it said: {}",
               silent_looks_, words);
  silent_looks_ = 0;
  sshd_lost_ = true;
  in_effect_ = -1;
  Report(PREPARING, "sshd in the VM stopped answering and is started again; all else runs on");
}

Status Agent::RemoveVm() {
  Report(PREPARING, "deleting the VM");
  StopServers();
  TORUS_RETURN_IF_ERROR(sandbox_.TakeDown(/*gently=*/true));
  FaultPoint("worker.remove");
  return sandbox_.RemoveFiles();
}

Status Agent::Serve(const VmSpec& vm, int64_t pid) {
  metadata_.SetTree(MetadataTree(vm, sandbox_.LimitsOf(vm).memory));
  if (served_pid_ == pid) return {};
  const auto text = ReadFile(sandbox_.paths().disk() + "/guest_attributes.json");
  GuestAttributes attributes;
  if (text) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (json.is_object()) {
      for (const auto& [name, value] : json.items())
        if (value.is_string()) attributes[name] = value;
    }
  }
  TORUS_ASSIGN_OR_RETURN(const auto keys, sandbox_.HostKeys());
  for (const auto& [type, key] : keys) attributes["hostkeys/" + type] = key;
  {
    const MutexLock lock(mutex_);
    attributes_ = attributes;
  }
  metadata_.SetGuestAttributes(std::move(attributes));
  TORUS_RETURN_IF_ERROR(metadata_.Listen(pid));
  ServeMetrics(pid);
  RefuseTensorFlow(vm, pid);
  served_pid_ = pid;
  FaultPoint("worker.metadata");
  return {};
}

// A VM without metrics is still a VM.
void Agent::ServeMetrics(int64_t pid) {
  const Status served = metrics_.Listen(pid);
  if (!served.ok()) spdlog::warn("no metrics of the VM's TPU: {}", served.message());
}

// Where the image has no worker of TensorFlow's (docs/tpu_vm.md).
void Agent::RefuseTensorFlow(const VmSpec& vm, int64_t pid) {
  if (std::filesystem::exists(vm.image_root() + "/opt/tensorflow-worker")) return;
  const Status kept = refusal_.Keep(vm, pid);
  if (!kept.ok()) spdlog::warn("port 8470 is left closed: {}", kept.message());
}

void Agent::Diagnose(const VmSpec& vm, const ProcessIdentity& init) {
  if (watcher_.Look(init, vm.uid_base())) Send(reported_);
}

void Agent::StopServers() {
  watcher_.Forget();
  refusal_.Stop();
  metrics_.Stop();
  metadata_.Stop();
}

void Agent::TakeAttributes(const GuestAttributes& attributes) {
  {
    const MutexLock lock(mutex_);
    attributes_ = attributes;
    attributes_changed_ = true;
  }
  const Status status = WriteFile(sandbox_.paths().disk() + "/guest_attributes.json",
                                  DumpJson(attributes), {.mode = 0600});
  if (!status.ok()) spdlog::warn("guest attributes are not kept: {}", status.ToString());
}

Accounts Agent::ReadKeys(const VmSpec& vm) {
  const Metadata node = {vm.metadata().begin(), vm.metadata().end()};
  const Metadata project = {vm.project_metadata().begin(), vm.project_metadata().end()};
  Accounts accounts = ReadAccounts(node, project, WallNow());
  next_expiry_ = accounts.next_expiry;
  if (accounts.skipped != skipped_) {
    for (const std::string& line : accounts.skipped) spdlog::warn("left out of ssh-keys: {}", line);
    skipped_ = accounts.skipped;
  }
  return accounts;
}

void Agent::Fail(const WorkerOrder& order, const Status& status) {
  if (Superseded(order.generation())) return;
  ++failures_;
  not_before_ = Clock::now() + BackOff(failures_);
  spdlog::error("{}; trying again in {} ms", status.ToString(), BackOff(failures_).count());
  Observed observed;
  observed.set_phase(FAILED);
  observed.set_error_code(static_cast<int>(status.code()));
  observed.set_error(status.message());
  Send(std::move(observed));
}

void Agent::Report(Phase phase, const std::string& detail) {
  Observed observed;
  observed.set_phase(phase);
  observed.set_detail(detail);
  Send(std::move(observed));
}

void Agent::Send(Observed observed) {
  observed.set_generation(std::max<int64_t>(in_effect_, 0));
  GuestAttributes attributes;
  {
    const MutexLock lock(mutex_);
    attributes = attributes_;
    attributes_changed_ = false;
  }
  // The VM's keys are what its disk has, whatever a user in it wrote: clients trust them.
  if (const auto keys = sandbox_.HostKeys())
    for (const auto& [type, key] : *keys) attributes["hostkeys/" + type] = key;
  observed.clear_guest_attributes();
  for (const auto& [name, value] : attributes) {
    const size_t slash = name.find('/');
    GuestAttribute& attribute = *observed.add_guest_attributes();
    attribute.set_namespace_(name.substr(0, slash));
    attribute.set_key(name.substr(slash + 1));
    attribute.set_value(value);
  }
  observed.clear_findings();
  for (auto& finding : watcher_.findings()) *observed.add_findings() = std::move(finding);
  reported_ = observed;
  report_(std::move(observed));
}

void Agent::ReportAttributes() {
  {
    const MutexLock lock(mutex_);
    if (!attributes_changed_) return;
  }
  Send(reported_);
}

}  // namespace torus::worker
