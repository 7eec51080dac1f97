#include "service/backend/local/worker_process.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/fault.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace torus::backend {

namespace fs = std::filesystem;

namespace {

constexpr auto kStartTime = std::chrono::seconds(10);
constexpr auto kEndTime = std::chrono::minutes(1);

bool IsReady(const std::shared_future<Status>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// The exit status of `torus worker --detach` is a canonical code.
Status StartStatus(const SubprocessResult& done) {
  if (done.exit_code == 0) return {};
  const bool canonical = done.exit_code <= static_cast<int>(Code::kUnauthenticated);
  std::string_view said = done.output;
  while (said.ends_with('\n')) said.remove_suffix(1);
  return Status(canonical ? static_cast<Code>(done.exit_code) : Code::kInternal,
                fmt::format("The VM's worker did not start: {}", said));
}

}  // namespace

WorkerProcess::WorkerProcess(std::string vms_folder, std::string socket, std::string program)
    : vms_folder_(std::move(vms_folder)),
      socket_(std::move(socket)),
      program_(std::move(program)) {}

std::string WorkerProcess::FolderOf(std::string_view node_uid, int index) const {
  return fmt::format("{}/{}/{}", vms_folder_, node_uid, index);
}

std::vector<std::string> WorkerProcess::Arguments(std::string_view node_uid, int index) const {
  return {program_,     "worker",
          "--socket",   socket_,
          "--dir",      FolderOf(node_uid, index),
          "--node-uid", std::string(node_uid),
          "--index",    fmt::format("{}", index)};
}

// The last owner of an asynchronous start waits for it.
WorkerProcess::~WorkerProcess() = default;

Status WorkerProcess::Start(std::string_view node_uid, int index) const {
  if (Find(node_uid, index)) return {};
  const std::string folder = FolderOf(node_uid, index);
  std::shared_future<Status> start;
  {
    const MutexLock lock(mutex_);
    if (const auto before = starting_.find(folder); before != starting_.end()) {
      if (!IsReady(before->second)) return {};
      // One that nobody waited for. After a success its worker has ended: another is needed.
      const Status ended = before->second.get();
      starting_.erase(before);
      TORUS_RETURN_IF_ERROR(ended);
    }
    TORUS_RETURN_IF_ERROR(MakeFolders(vms_folder_, 0700));
    FaultPoint("backend.start_worker");
    std::vector<std::string> argv = Arguments(node_uid, index);
    argv.push_back("--detach");
    start = std::async(std::launch::async, [argv = std::move(argv)]() -> Status {
      TORUS_ASSIGN_OR_RETURN(const auto done, RunSubprocess(argv, {.timeout = kStartTime}));
      return StartStatus(done);
    });
    starting_[folder] = start;
  }
  if (start.wait_for(kStartWait) != std::future_status::ready) return {};
  const MutexLock lock(mutex_);
  // Another call may have begun a start of its own meanwhile.
  const auto found = starting_.find(folder);
  if (found != starting_.end() && IsReady(found->second)) starting_.erase(found);
  return start.get();
}

std::optional<ProcessIdentity> WorkerProcess::Find(std::string_view node_uid, int index) const {
  return LockHolder(FolderOf(node_uid, index) + "/run/lock");
}

bool WorkerProcess::End(std::string_view node_uid, int index,
                        std::chrono::milliseconds limit) const {
  const auto worker = Find(node_uid, index);
  if (!worker) return true;
  FaultPoint("backend.end_worker");
  kill(static_cast<pid_t>(worker->pid), SIGKILL);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (IsAlive(*worker)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Status WorkerProcess::RemoveLeftovers(std::string_view node_uid, int index,
                                      const std::stop_token& stop) const {
  std::shared_future<Status> start;
  {
    const MutexLock lock(mutex_);
    const auto found = starting_.find(FolderOf(node_uid, index));
    if (found != starting_.end()) start = found->second;
  }
  // A worker that comes up after its VM was removed would make it anew.
  if (start.valid()) start.wait();
  if (!End(node_uid, index, kEndTime))
    return DeadlineExceeded("the VM's worker does not die; it waits for a disk, most likely");
  FaultPoint("backend.remove_leftovers");
  std::vector<std::string> argv = Arguments(node_uid, index);
  argv.push_back("--purge");
  TORUS_RETURN_IF_ERROR(RunChecked(argv, {.timeout = std::chrono::minutes(5), .stop = stop}));
  return {};
}

void WorkerProcess::RemoveEmptyFolder(std::string_view node_uid) const {
  rmdir(fmt::format("{}/{}", vms_folder_, node_uid).c_str());
}

std::vector<std::pair<std::string, int>> WorkerProcess::List() const {
  std::vector<std::pair<std::string, int>> vms;
  std::error_code error;
  for (const auto& node : fs::directory_iterator(vms_folder_, error)) {
    for (const auto& vm : fs::directory_iterator(node.path(), error)) {
      const std::string name = vm.path().filename();
      int index = 0;
      const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), index);
      if (failed == std::errc() && end == name.data() + name.size())
        vms.emplace_back(node.path().filename(), index);
    }
  }
  return vms;
}

}  // namespace torus::backend
