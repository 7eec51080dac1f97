#include "service/backend/local/worker_process.h"

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

Status WorkerProcess::Start(std::string_view node_uid, int index) const {
  if (Find(node_uid, index)) return {};
  TORUS_RETURN_IF_ERROR(MakeFolders(vms_folder_, 0700));
  FaultPoint("backend.start_worker");
  std::vector<std::string> argv = Arguments(node_uid, index);
  argv.push_back("--detach");
  TORUS_RETURN_IF_ERROR(RunChecked(argv, {.timeout = std::chrono::seconds(10)}));
  return {};
}

std::optional<ProcessIdentity> WorkerProcess::Find(std::string_view node_uid, int index) const {
  return LivingProcessOf(FolderOf(node_uid, index) + "/run/worker.pid");
}

Status WorkerProcess::RemoveLeftovers(std::string_view node_uid, int index) const {
  if (const auto worker = Find(node_uid, index)) {
    kill(static_cast<pid_t>(worker->pid), SIGKILL);
    while (IsAlive(*worker)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  FaultPoint("backend.remove_leftovers");
  std::vector<std::string> argv = Arguments(node_uid, index);
  argv.push_back("--purge");
  TORUS_RETURN_IF_ERROR(RunChecked(argv, {.timeout = std::chrono::minutes(5)}));
  return {};
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
