// What `torus tpu-vm ssh` and `scp` make of their arguments, apart from the commands so that tests
// see it.
#ifndef TORUS_CLI_TPU_VM_SSH_H_
#define TORUS_CLI_TPU_VM_SSH_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/foreground.h"
#include "cli/ssh_session.h"

namespace torus::cli {

struct SshCommandFlags : SshFlags {
  std::string user_tpu;  // "[USER@]TPU"
  std::string command;   // empty: a login shell
  std::string output_directory;
  std::vector<std::string> ssh_flags;  // as typed: "-L 80:%TPU%:80" is two words
  std::vector<std::string> ssh_args;   // after "--"
};

// The ssh of each worker.
std::vector<Program> SshPrograms(const SshSession& session, const SshCommandFlags& flags);

// One end of a copy: "[[USER@]TPU:]PATH".
struct CopyEnd {
  std::string user, tpu, path;  // a local path has no tpu

  bool remote() const { return !tpu.empty(); }
};
CopyEnd ParseCopyEnd(std::string_view text);

struct ScpCommandFlags : SshFlags {
  std::vector<std::string> paths;  // sources, then the destination
  std::vector<std::string> scp_flags;
  bool recurse = false, compress = false;
  std::string user;           // of the remote end; filled by CheckCopy
  std::vector<CopyEnd> ends;  // filled by CheckCopy
};

// Fills ends, user and node. INVALID_ARGUMENT unless one side is one TPU VM and the other is local.
Status CheckCopy(ScpCommandFlags& flags);

// The scp of each worker.
std::vector<Program> ScpPrograms(const SshSession& session, const ScpCommandFlags& flags);

}  // namespace torus::cli

#endif  // TORUS_CLI_TPU_VM_SSH_H_
