// posix_spawn for several, execvp for one.
#include "cli/foreground.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace torus::cli {
namespace {

std::vector<char*> Arguments(const Program& program) {
  std::vector<char*> arguments;
  for (const std::string& argument : program.argv)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

Error CannotRun(const Program& program, int error) {
  if (error == ENOENT)
    return NotFound("{} is not installed; it is in the package openssh-client", program.argv[0]);
  return Internal("cannot run {}: {}", program.argv[0], std::strerror(error));
}

Result<pid_t> Spawn(const Program& program) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (!program.log.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, program.log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, program.argv[0].c_str(), &actions, nullptr,
                                 Arguments(program).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) return CannotRun(program, error);
  return pid;
}

int Wait(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<int> RunInFront(const std::vector<Program>& programs) {
  if (programs.size() == 1 && programs[0].log.empty()) {
    execvp(programs[0].argv[0].c_str(), Arguments(programs[0]).data());
    return CannotRun(programs[0], errno);
  }
  std::vector<pid_t> pids;
  Status failure;
  for (const Program& program : programs) {
    auto pid = Spawn(program);
    if (!pid) {
      failure = pid.error();
      break;
    }
    pids.push_back(*pid);
  }
  int first_failure = 0;
  for (const pid_t pid : pids) {
    const int status = Wait(pid);
    if (first_failure == 0) first_failure = status;
  }
  if (!failure.ok()) return Error(failure);
  return first_failure;
}

std::string ShellQuote(const std::string& word) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string ToShell(const std::vector<Program>& programs) {
  std::string text;
  for (const Program& program : programs) {
    std::string line;
    for (const std::string& word : program.argv)
      line += (line.empty() ? "" : " ") + ShellQuote(word);
    text += line + "\n";
  }
  return text;
}

}  // namespace torus::cli
