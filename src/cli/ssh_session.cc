// Prepares an SSH session by the node's record.
#include "cli/ssh_session.h"

#include <pwd.h>
#include <unistd.h>

#include <iostream>
#include <sstream>

#include "cli/operation.h"
#include "cli/ssh_key.h"

namespace torus::cli {
namespace {

// Whoever runs this command, as gcloud finds out.
Result<std::string> LocalUser() {
  for (const char* name : {"LOGNAME", "USER", "LNAME", "USERNAME"}) {
    if (std::string user = Environment(name); !user.empty()) return user;
  }
  if (const passwd* entry = getpwuid(geteuid())) return std::string(entry->pw_name);
  return FailedPrecondition("cannot tell who you are; write USER@TPU");
}

// Adds the key to the node's metadata if it is not there, and waits until the VM has it.
Status AddKeyToNode(const Client& client, const Json& node, const NodeName& name,
                    const std::string& user, const std::string& public_key) {
  Json metadata = node.value("metadata", Json::object());
  const auto keys = WithSshKey(metadata.value("ssh-keys", ""), user, public_key);
  if (!keys) return {};
  metadata["ssh-keys"] = *keys;
  TORUS_ASSIGN_OR_RETURN(
      const Json operation,
      client.Patch(name.ToString(), {{"metadata", metadata}}, {{"updateMask", "metadata"}}));
  TORUS_RETURN_IF_ERROR(WaitForOperation(
      client, operation, fmt::format("Adding your SSH key to tpu [{}]", name.node)));
  return {};
}

// Puts the host keys that the service knows into known_hosts. False if it knows none.
Result<bool> LearnHostKeys(const Client& client, const SshSession& session, const NodeName& name) {
  // An empty id asks for all workers, as gcloud does.
  auto reply =
      client.Post(name.ToString() + ":getGuestAttributes", {{"workerIds", Json::array({""})}});
  // The service says why nobody can log in here; any other failure only leaves the keys unknown.
  if (!reply && reply.error().code() == Code::kFailedPrecondition) return Error(reply.error());
  if (!reply) return false;
  std::vector<int> indexes;
  for (const Worker& worker : session.workers) indexes.push_back(worker.index);
  const HostKeys keys = HostKeysFromGuestAttributes(*reply, session.node_id, indexes);
  if (keys.size() < indexes.size()) return false;
  TORUS_RETURN_IF_ERROR(WriteHostKeys(session.known_hosts, keys));
  return true;
}

// A string field; an id may be a number, too.
std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace

void AddSshFlags(CLI::App& command, SshFlags& flags) {
  command.add_option("--worker", flags.worker, "Worker of a slice: a number, 1,4, 1-3 or all")
      ->type_name("WORKER")
      ->capture_default_str();
  command
      .add_option("--ssh-key-file", flags.key_file,
                  "Private key, made if missing; ~/.ssh/google_compute_engine if not given")
      ->type_name("FILE");
  command
      .add_option("--strict-host-key-checking", flags.strict_host_key_checking,
                  "yes, no or ask; yes if the service knows the VM's keys")
      ->check(CLI::IsMember({"yes", "no", "ask"}).description(""))
      ->type_name("MODE");
  command.add_flag("--internal-ip", flags.internal_ip, "Connect to the internal address");
  command.add_flag("--plain", flags.plain, "Leave keys and host checks to OpenSSH");
  command.add_flag("--dry-run", flags.dry_run, "Print the command and change nothing");
}

void AppendWords(std::vector<std::string>& argv, const std::string& flag) {
  std::istringstream words(flag);
  for (std::string word; words >> word;) argv.push_back(word);
}

Result<int> RunOrPrint(const SshFlags& flags, const std::vector<Program>& programs) {
  if (!flags.dry_run) return RunInFront(programs);
  std::cout << ToShell(programs) << std::flush;
  return kExitOk;
}

Status CheckReady(const Json& node, const NodeName& name) {
  const std::string state = Text(node, "state");
  if (state == "READY") return {};
  const std::string flags = fmt::format("{} --zone={}", name.node, name.zone);
  if (state == "STOPPED")
    return FailedPrecondition("TPU VM \"{}\" is STOPPED; start it with: torus tpu-vm start {}",
                              name.node, flags);
  if (state == "PREEMPTED" || state == "TERMINATED")
    return FailedPrecondition(
        "TPU VM \"{}\" is {} and will not come back; delete it with: torus "
        "tpu-vm delete {}",
        name.node, state, flags);
  return FailedPrecondition(
      "TPU VM \"{}\" is {}, not READY; look at it with: torus tpu-vm describe {}", name.node,
      state.empty() ? "in no known state" : state, flags);
}

Result<std::vector<Worker>> FindWorkers(const Json& node, std::string_view worker,
                                        bool internal_ip) {
  const Json endpoints = node.value("networkEndpoints", Json::array());
  TORUS_ASSIGN_OR_RETURN(const auto indexes,
                         ParseWorkers(worker, static_cast<int>(endpoints.size())));
  std::vector<Worker> workers;
  for (const int index : indexes) {
    const Json& endpoint = endpoints[index];
    Worker each{index, "", Text(endpoint, "ipAddress")};
    if (!internal_ip)
      each.address = Text(endpoint.value("accessConfig", Json::object()), "externalIp");
    if (each.address.empty()) each.address = each.internal;
    if (each.address.empty())
      return FailedPrecondition("worker {} of this TPU VM has no address to connect to", index);
    workers.push_back(std::move(each));
  }
  return workers;
}

Result<SshSession> PrepareSsh(const SshFlags& flags, std::string user) {
  if (user.empty()) {
    TORUS_ASSIGN_OR_RETURN(user, LocalUser());
  }
  TORUS_ASSIGN_OR_RETURN(const std::string home, HomeFolder());
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  TORUS_ASSIGN_OR_RETURN(const Json node, client.Get(flags.name.ToString()));
  TORUS_RETURN_IF_ERROR(CheckReady(node, flags.name));
  SshSession session;
  session.user = user;
  session.node_id = Text(node, "id");
  session.key_file = flags.key_file.empty() ? home + "/.ssh/google_compute_engine" : flags.key_file;
  session.known_hosts = home + "/.ssh/google_compute_known_hosts";
  if (node.value("networkEndpoints", Json::array()).empty())
    return FailedPrecondition("TPU VM \"{}\" has no address to connect to", flags.name.node);
  TORUS_ASSIGN_OR_RETURN(session.workers, FindWorkers(node, flags.worker, flags.internal_ip));
  if (flags.plain || flags.dry_run) return session;
  TORUS_ASSIGN_OR_RETURN(const std::string public_key, EnsureSshKey(session.key_file));
  TORUS_RETURN_IF_ERROR(AddKeyToNode(client, node, flags.name, user, public_key));
  TORUS_ASSIGN_OR_RETURN(session.host_keys_known, LearnHostKeys(client, session, flags.name));
  return session;
}

std::vector<std::string> SshOptions(const SshSession& session, const SshFlags& flags,
                                    const Worker& worker) {
  if (flags.plain) return {};
  std::string strict = flags.strict_host_key_checking;
  if (strict.empty()) strict = session.host_keys_known ? "yes" : "accept-new";
  return {"-i", session.key_file,
          "-o", "CheckHostIP=no",
          "-o", "ConnectTimeout=20",  // a VM that is gone says nothing; OpenSSH would wait minutes
          "-o", "HashKnownHosts=no",
          "-o", "HostKeyAlias=" + HostKeyAlias(session.node_id, worker.index),
          "-o", "IdentitiesOnly=yes",
          "-o", "StrictHostKeyChecking=" + strict,
          "-o", "UserKnownHostsFile=" + session.known_hosts};
}

}  // namespace torus::cli
