// A VM's processes that have a machine learning framework in them, seen from the host's /proc: what
// a VM does with its own cannot mislead it. Processes of a container within the VM are not seen.
//
// Not thread-safe.
#ifndef TORUS_WORKER_VM_PROCESSES_H_
#define TORUS_WORKER_VM_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"

namespace torus::worker {

// How a process reaches the TPU, in the words of the doctor's facts (src/cli/doctor_facts.py).
enum class Reach { kLibtpu, kGrpc, kNone };

struct VmProcess {
  ProcessIdentity host;  // on the host
  int64_t pid = 0;       // in the VM
  int64_t seconds = 0;   // since it began
  std::string framework;
  Reach reach = Reach::kNone;
  std::string command;  // one line, at most 200 bytes
  int terminal = 0;     // /dev/pts/<terminal - 1> in the VM; 0: none
};

class VmProcesses {
 public:
  // The living ones of the VM whose first process is `init`.
  std::vector<VmProcess> Look(const ProcessIdentity& init);

 private:
  // What is known of a process without a framework: when to look again.
  struct Skipped {
    uint64_t start_ticks = 0;
    int64_t next_seconds = 0;  // of its age
  };
  std::optional<VmProcess> LookAt(int64_t pid);

  std::map<int64_t, Skipped> skipped_;
};

// ---- The parts that read a text

// The framework whose library the maps of a process show; empty: none.
std::string FrameworkIn(const std::string& maps);
// The pid in the innermost namespace, of a /proc/<pid>/status; 0: it says none.
int64_t InnermostPid(const std::string& status);
// A terminal of /dev/pts, by its device number (Linux: Documentation/admin-guide/devices.txt).
bool IsPseudoTerminal(dev_t device);
// As VmProcess::terminal, of a /proc/<pid>/stat.
int TerminalOf(const std::string& stat);
// The sockets (inodes) of a /proc/<pid>/net/tcp or tcp6 that are connected to port 8470.
std::vector<std::string> SocketsToWorkers(const std::string& table);

}  // namespace torus::worker

#endif  // TORUS_WORKER_VM_PROCESSES_H_
