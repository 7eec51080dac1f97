#include "worker/cgroups.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;

// The folders of that name at the root of each hierarchy.
std::vector<fs::path> Find(const std::string& name) {
  const fs::path root = "/sys/fs/cgroup";
  std::vector<fs::path> found;
  std::error_code error;
  if (fs::is_directory(root / name, error)) found.push_back(root / name);
  for (const auto& hierarchy : fs::directory_iterator(root, error)) {
    if (hierarchy.is_symlink()) continue;
    if (fs::is_directory(hierarchy.path() / name, error)) found.push_back(hierarchy.path() / name);
  }
  return found;
}

// The cgroup's own folders below it first.
std::vector<fs::path> Tree(const fs::path& top) {
  std::vector<fs::path> folders = {top};
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(top, error); !error && it != fs::end(it);
       it.increment(error))
    if (it->is_directory(error)) folders.push_back(it->path());
  return {folders.rbegin(), folders.rend()};
}

// Kills the members; whether there are none left.
bool Empty(const fs::path& cgroup) {
  std::ifstream members(cgroup / "cgroup.procs");
  bool empty = true;
  for (pid_t pid; members >> pid;) {
    if (pid <= 0) continue;
    kill(pid, SIGKILL);
    empty = false;
  }
  return empty;
}

Status Remove(const fs::path& cgroup) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    ReapOrphans();
    if (Empty(cgroup)) {
      if (rmdir(cgroup.c_str()) == 0 || errno == ENOENT) return {};
      if (errno != EBUSY) return ErrnoStatus(errno, "remove the cgroup", cgroup);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return DeadlineExceeded("processes in the cgroup {} do not die", cgroup.string());
}

}  // namespace

Status LimitTcpMemory(const std::string& name, int64_t bytes) {
  for (const fs::path& cgroup : Find(name)) {
    const std::string path = cgroup / "memory.kmem.tcp.limit_in_bytes";
    std::ofstream file(path, std::ios::in);  // never made
    if (file.is_open() && !(file << bytes << std::flush)) return ErrnoStatus(errno, "write", path);
  }
  return {};
}

Status RemoveCgroups(const std::string& name) {
  for (const fs::path& top : Find(name))
    for (const fs::path& cgroup : Tree(top)) TORUS_RETURN_IF_ERROR(Remove(cgroup));
  return {};
}

}  // namespace torus::worker
