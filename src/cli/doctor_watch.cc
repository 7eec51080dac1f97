#include "cli/doctor_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/fd.h"
#include "doctor/log_text.h"

namespace torus::cli {
namespace {

// Feeds what is read from a descriptor to the diagnosis, as one source.
class Source {
 public:
  Source(doctor::Diagnosis& diagnosis, std::string name)
      : name_(std::move(name)),
        text_([this, &diagnosis](std::string_view line) { diagnosis.AddLine(name_, line); }) {}

  // False at the end. INTERNAL where it cannot be read.
  Result<bool> Read(int fd, int copy = -1) {
    std::array<char, 1 << 16> buffer;
    const ssize_t got = TEMP_FAILURE_RETRY(read(fd, buffer.data(), buffer.size()));
    if (got < 0) return Internal("cannot read {}: {}", name_, std::strerror(errno));
    if (got == 0) {
      text_.End();
      return false;
    }
    const std::string_view bytes(buffer.data(), static_cast<size_t>(got));
    text_.Add(bytes);
    for (auto rest = bytes; copy >= 0 && !rest.empty();) {
      const ssize_t put = TEMP_FAILURE_RETRY(write(copy, rest.data(), rest.size()));
      if (put <= 0) break;  // nobody reads it; the program goes on
      rest.remove_prefix(static_cast<size_t>(put));
    }
    return true;
  }

 private:
  const std::string name_;
  doctor::LogText text_;
};

struct Pipe {
  Fd read, write;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return Internal("no pipe: {}", std::strerror(errno));
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<pid_t> Spawn(const std::vector<std::string>& command, int out, int err) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return NotFound("{}: there is no such program", command[0]);
  if (error != 0) return Internal("cannot run {}: {}", command[0], std::strerror(error));
  return pid;
}

// Copies what comes from both pipes to our own output, until both have ended.
Status Watch(doctor::Diagnosis& diagnosis, const Fd& out, const Fd& err) {
  Source sources[] = {{diagnosis, "stdout"}, {diagnosis, "stderr"}};
  const int copies[] = {STDOUT_FILENO, STDERR_FILENO};
  std::array<pollfd, 2> waiting{{{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}}};
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR)
      return Internal("poll: {}", std::strerror(errno));
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      TORUS_ASSIGN_OR_RETURN(const bool more, sources[i].Read(waiting[i].fd, copies[i]));
      if (!more) waiting[i].fd = -1;
    }
  }
  return {};
}

}  // namespace

Status ReadLog(doctor::Diagnosis& diagnosis, const std::string& path) {
  Fd file;
  if (path != "-") {
    file = Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
      const int error = errno;
      return NotFound("cannot open the log {}: {}", path, std::strerror(error));
    }
  }
  Source source(diagnosis, path == "-" ? "standard input" : path);
  while (true) {
    TORUS_ASSIGN_OR_RETURN(const bool more, source.Read(file ? file.get() : STDIN_FILENO));
    if (!more) return {};
  }
}

Result<int> RunAndWatch(doctor::Diagnosis& diagnosis, const std::vector<std::string>& command) {
  TORUS_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  TORUS_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  TORUS_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, out.write.get(), err.write.get()));
  out.write = Fd();
  err.write = Fd();
  // Ctrl-C is for the program; the diagnosis of what it said comes after.
  std::signal(SIGINT, SIG_IGN);
  TORUS_RETURN_IF_ERROR(Watch(diagnosis, out.read, err.read));
  int status = 0;
  if (TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)) < 0) return Internal("waitpid failed");
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace torus::cli
