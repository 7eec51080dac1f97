// torus tpu-vm ssh
#include "cli/tpu_vm_ssh.h"

#include <filesystem>

#include "cli/commands.h"

namespace torus::cli {
namespace {

std::string Replace(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// A flag or an argument with %USER% and %TPU% filled in.
std::string Fill(const std::string& text, const SshSession& session, const Worker& worker) {
  return Replace(Replace(text, "%USER%", session.user), "%TPU%", worker.address);
}

Program SshProgram(const SshSession& session, const SshCommandFlags& flags, const Worker& worker) {
  Program program{{"ssh"}, ""};
  auto& argv = program.argv;
  if (flags.command.empty() && flags.ssh_args.empty()) argv.push_back("-t");
  for (const std::string& option : SshOptions(session, flags, worker)) argv.push_back(option);
  for (const std::string& flag : flags.ssh_flags) AppendWords(argv, Fill(flag, session, worker));
  argv.push_back(session.user + "@" + worker.address);
  for (const std::string& argument : flags.ssh_args)
    argv.push_back(Fill(argument, session, worker));
  if (!flags.command.empty()) {
    argv.push_back("--");
    argv.push_back(flags.command);
  }
  if (!flags.output_directory.empty())
    program.log = fmt::format("{}/{}.log", flags.output_directory, worker.index);
  return program;
}

Result<int> Run(const SshCommandFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const SshSession session,
                         PrepareSsh(flags, SplitUser(flags.user_tpu).first));
  if (session.workers.size() > 1 && flags.command.empty())
    return InvalidArgument("--worker names {} workers; that needs --command",
                           session.workers.size());
  return RunOrPrint(flags, SshPrograms(session, flags));
}

void Check(SshCommandFlags& flags, const Invocation& invocation) {
  flags.node = SplitUser(flags.user_tpu).second;
  flags.Resolve(invocation);
  if (flags.output_directory.empty()) return;
  if (flags.command.empty())
    throw CLI::ValidationError("--output-directory", "it goes with --command");
  if (!std::filesystem::is_directory(flags.output_directory))
    throw CLI::ValidationError("--output-directory",
                               flags.output_directory + " is not a folder; make it first");
}

}  // namespace

std::vector<Program> SshPrograms(const SshSession& session, const SshCommandFlags& flags) {
  std::vector<Program> programs;
  for (const Worker& worker : session.workers)
    programs.push_back(SshProgram(session, flags, worker));
  return programs;
}

void AddTpuVmSsh(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<SshCommandFlags>();
  CLI::App* command =
      AddCommand(parent, "ssh", "Log in to a TPU VM, or run a command in it",
                 "  torus tpu-vm ssh my-tpu --zone=us-central1-a\n"
                 "  torus tpu-vm ssh me@my-tpu --zone=us-central1-a --command='python3 train.py'\n"
                 "  torus tpu-vm ssh my-tpu --zone=us-central1-a -- -L 6006:localhost:6006");
  command->add_option("TPU", flags->user_tpu, "The TPU VM, and who logs in")
      ->type_name("[USER@]TPU")
      ->required();
  command->add_option("--command", flags->command, "Run this and exit with its status")
      ->type_name("COMMAND");
  command
      ->add_option("--output-directory", flags->output_directory,
                   "Write each worker's output to <worker>.log in this folder")
      ->type_name("FOLDER");
  AddRepeated(*command, "--ssh-flag", flags->ssh_flags, "A flag for ssh; may be repeated")
      ->type_name("FLAG");
  AddSshFlags(*command, *flags);
  AddCommonFlags(*command, flags->common, ZoneFlag::kRequired);
  command->callback([flags, &invocation] {
    Check(*flags, invocation);
    flags->ssh_args = invocation.after_dashes;
    invocation.takes_after_dashes = true;
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
