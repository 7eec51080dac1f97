// From a node's name to what OpenSSH needs: the flags that ssh and scp share, the checks, the key
// in the node's metadata, the host keys in known_hosts. Thread-safety: none; one thread.
#ifndef TORUS_CLI_SSH_SESSION_H_
#define TORUS_CLI_SSH_SESSION_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/foreground.h"
#include "cli/tpu_vm.h"

namespace torus::cli {

// The flags, by gcloud's names.
struct SshFlags : NodeFlags {
  std::string key_file;                  // empty: ~/.ssh/google_compute_engine
  std::string worker = "0";              // as ParseWorkers reads it
  std::string strict_host_key_checking;  // yes, no, ask; empty: yes if the service knows the keys
  bool internal_ip = false;
  bool plain = false;    // OpenSSH's own keys and host checks
  bool dry_run = false;  // print the command
};

void AddSshFlags(CLI::App& command, SshFlags& flags);

struct Worker {
  int index = 0;
  std::string address;   // to connect to
  std::string internal;  // the internal one
};

struct SshSession {
  std::string user;
  std::vector<Worker> workers;  // those that --worker names
  std::string key_file, known_hosts, node_id;
  bool host_keys_known = false;
};

// Gets ready to connect as `user`; empty: as whoever runs this command. FAILED_PRECONDITION if the
// node is not READY or has no address, with what to do; INVALID_ARGUMENT if --worker names none of
// its workers. Changes nothing with
// --dry-run.
Result<SshSession> PrepareSsh(const SshFlags& flags, std::string user);

// The -i and -o options for one worker.
std::vector<std::string> SshOptions(const SshSession& session, const SshFlags& flags,
                                    const Worker& worker);

// Adds the words of a flag as typed, such as "-L 80:localhost:80", to a command.
void AppendWords(std::vector<std::string>& argv, const std::string& flag);

// Runs the programs in front of the user, or prints them with --dry-run.
Result<int> RunOrPrint(const SshFlags& flags, const std::vector<Program>& programs);

// FAILED_PRECONDITION unless the node is READY, with what to do about it.
Status CheckReady(const Json& node, const NodeName& name);

// The workers of a node that `worker` names.
Result<std::vector<Worker>> FindWorkers(const Json& node, std::string_view worker,
                                        bool internal_ip);

}  // namespace torus::cli

#endif  // TORUS_CLI_SSH_SESSION_H_
