// torus tpu-vm scp
#include "cli/commands.h"
#include "cli/tpu_vm_ssh.h"

namespace torus::cli {
namespace {

std::string Remote(const CopyEnd& end, const SshSession& session, const Worker& worker) {
  const bool ipv6 = worker.address.find(':') != std::string::npos;
  return fmt::format("{}@{}{}{}:{}", session.user, ipv6 ? "[" : "", worker.address, ipv6 ? "]" : "",
                     end.path);
}

// A local path that scp cannot take for a remote one.
std::string Local(const std::string& path) {
  const size_t colon = path.find(':');
  const bool looks_remote = colon != path.npos && path.find('/') > colon;
  return looks_remote || path.starts_with('-') ? "./" + path : path;
}

Program ScpProgram(const SshSession& session, const ScpCommandFlags& flags, const Worker& worker) {
  Program program{{"scp"}, ""};
  auto& argv = program.argv;
  if (flags.recurse) argv.push_back("-r");
  if (flags.compress) argv.push_back("-C");
  for (const std::string& option : SshOptions(session, flags, worker)) argv.push_back(option);
  for (const std::string& flag : flags.scp_flags) AppendWords(argv, flag);
  for (const CopyEnd& end : flags.ends)
    argv.push_back(end.remote() ? Remote(end, session, worker) : Local(end.path));
  return program;
}

Result<int> Run(const ScpCommandFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const SshSession session, PrepareSsh(flags, flags.user));
  if (session.workers.size() > 1 && !flags.ends.back().remote())
    return InvalidArgument("--worker names {} workers; copy from one at a time",
                           session.workers.size());
  return RunOrPrint(flags, ScpPrograms(session, flags));
}

}  // namespace

CopyEnd ParseCopyEnd(std::string_view text) {
  const size_t colon = text.find(':');
  // As scp: a colon after a slash belongs to a local path.
  if (colon == text.npos || colon == 0 || text.find('/') < colon)
    return {"", "", std::string(text)};
  auto [user, tpu] = SplitUser(text.substr(0, colon));
  return {std::move(user), std::move(tpu), std::string(text.substr(colon + 1))};
}

Status CheckCopy(ScpCommandFlags& flags) {
  flags.ends.clear();
  for (const std::string& path : flags.paths) flags.ends.push_back(ParseCopyEnd(path));
  if (flags.ends.size() < 2) return InvalidArgument("give at least a source and a destination");
  const bool upload = flags.ends.back().remote();
  const CopyEnd& remote = upload ? flags.ends.back() : flags.ends.front();
  for (size_t i = 0; i + 1 < flags.ends.size(); ++i) {
    const CopyEnd& source = flags.ends[i];
    if (source.remote() == upload || (!upload && source.tpu != remote.tpu))
      return InvalidArgument(
          "one side must be one TPU VM and the other this machine: torus tpu-vm scp FILE TPU:, or "
          "torus tpu-vm scp TPU:FILE .");
  }
  flags.user = remote.user;
  flags.node = remote.tpu;
  return {};
}

std::vector<Program> ScpPrograms(const SshSession& session, const ScpCommandFlags& flags) {
  std::vector<Program> programs;
  for (const Worker& worker : session.workers)
    programs.push_back(ScpProgram(session, flags, worker));
  return programs;
}

void AddTpuVmScp(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<ScpCommandFlags>();
  CLI::App* command = AddCommand(parent, "scp", "Copy files to or from a TPU VM",
                                 "  torus tpu-vm scp train.py my-tpu: --zone=us-central1-a\n"
                                 "  torus tpu-vm scp --recurse data my-tpu:~/data --worker=all "
                                 "--zone=us-central1-a\n"
                                 "  torus tpu-vm scp my-tpu:model.bin . --zone=us-central1-a");
  command->add_option("PATHS", flags->paths, "What to copy, and where to: each [[USER@]TPU:]PATH")
      ->type_name("SRC... DEST")
      ->required();
  command->add_flag("--recurse", flags->recurse, "Copy folders with all that is in them");
  command->add_flag("--compress", flags->compress, "Compress on the way");
  AddRepeated(*command, "--scp-flag", flags->scp_flags, "A flag for scp; may be repeated")
      ->type_name("FLAG");
  AddSshFlags(*command, *flags);
  AddCommonFlags(*command, flags->common, ZoneFlag::kRequired);
  command->callback([flags, &invocation] {
    if (const Status status = CheckCopy(*flags); !status.ok())
      throw CLI::ValidationError(status.message());
    flags->Resolve(invocation);
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
