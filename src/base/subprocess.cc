#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/fault.h"
#include "base/fd.h"
#include "base/mutex.h"

extern char** environ;

namespace torus {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOutput = 256 * 1024;

// The children whose status somebody in here waits for.
Mutex waited_mutex;
int waited TORUS_GUARDED_BY(waited_mutex) = 0;

class Waited {
 public:
  Waited() { Add(1); }
  ~Waited() { Add(-1); }
  Waited(const Waited&) = delete;

 private:
  static void Add(int number) {
    const MutexLock lock(waited_mutex);
    waited += number;
  }
};

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Result<pid_t> Spawn(const std::vector<std::string>& argv, const SubprocessOptions& options,
                    int input, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const std::vector<char*> environment = Pointers(options.environment);
  // Administrators' programs are found though the caller's PATH lacks their folder.
  int error = ENOENT;
  for (const std::string& program : {argv[0], "/usr/sbin/" + argv[0]}) {
    error = posix_spawnp(&pid, program.c_str(), &actions, &attributes, Pointers(argv).data(),
                         options.environment.empty() ? environ : environment.data());
    if (error != ENOENT) break;
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == ENOENT) return NotFound("the program {} is not installed or not in PATH", argv[0]);
  if (error != 0) return Internal("cannot start {}: {}", argv[0], std::strerror(error));
  return pid;
}

// Kills the child's group and reaps the child. The others of the group have ended, too, on return
// (but for what the kernel cannot end soon), so that what they used can be removed.
void Kill(pid_t pid) {
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  for (int tries = 0; tries < 120 && kill(-pid, 0) == 0; ++tries) {
    // Those that came to us as a subreaper.
    while (waitpid(-pid, nullptr, WNOHANG) > 0) {
    }
    usleep(2000);
  }
}

// Readable once a stop is requested.
class StopFd {
 public:
  explicit StopFd(const std::stop_token& stop)
      : fd_(stop.stop_possible() ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1),
        callback_(stop, [this] {
          const uint64_t one = 1;
          if (fd_) (void)!write(fd_.get(), &one, sizeof(one));
        }) {}
  int get() const { return fd_.get(); }

 private:
  const Fd fd_;
  std::stop_callback<std::function<void()>> callback_;
};

// Gives whole lines to `on_line`, keeping what is left of the last one.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}
  void Add(std::string_view text) {
    if (!on_line_) return;
    rest_ += text;
    size_t end;
    while ((end = rest_.find('\n')) != std::string::npos) {
      on_line_(std::string_view(rest_).substr(0, end));
      rest_.erase(0, end + 1);
    }
    if (rest_.size() > kMaxOutput) rest_.clear();
  }

 private:
  const std::function<void(std::string_view)>& on_line_;
  std::string rest_;
};

// Feeds and drains the child until it closes its output; false when `deadline` or a stop comes
// first.
bool Pump(const SubprocessOptions& options, Fd& input, Fd& output, Clock::time_point deadline,
          std::string& text) {
  Lines lines(options.on_line);
  const StopFd stop(options.stop);
  std::string_view rest = options.input;
  if (rest.empty()) input.Close();
  while (output.get() >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || options.stop.stop_requested()) return false;
    // A descriptor of -1 is passed over.
    pollfd fds[] = {{output.get(), POLLIN, 0}, {input.get(), POLLOUT, 0}, {stop.get(), POLLIN, 0}};
    if (poll(fds, std::size(fds), static_cast<int>(std::min<int64_t>(left, 1 << 30))) < 0 &&
        errno != EINTR)
      return false;
    if (input.get() >= 0 && fds[1].revents != 0) {
      const ssize_t n = send(input.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
      if (rest.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) input.Close();
    }
    if (fds[0].revents != 0) {
      char buffer[16384];
      const ssize_t n = read(output.get(), buffer, sizeof(buffer));
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return true;
      const std::string_view piece(buffer, static_cast<size_t>(n));
      text += piece.substr(0, kMaxOutput - std::min(kMaxOutput, text.size()));
      lines.Add(piece);
    }
  }
  return true;
}

// Waits until the child ends; -1 when `deadline` or a stop comes first, else its wait status.
int Wait(pid_t pid, Clock::time_point deadline, const std::stop_token& stop) {
  for (int pause_us = 200;; pause_us = std::min(pause_us * 2, 5000)) {
    int status = 0;
    const pid_t done = waitpid(pid, &status, WNOHANG);
    if (done == pid) return status;
    if (done < 0 && errno != EINTR) return 127 << 8;
    if (Clock::now() >= deadline || stop.stop_requested()) return -1;
    usleep(static_cast<useconds_t>(pause_us));
  }
}

}  // namespace

Result<SubprocessResult> RunSubprocess(const std::vector<std::string>& argv,
                                       const SubprocessOptions& options) {
  if (options.stop.stop_requested()) return Cancelled("{} was not started", argv[0]);
  // A socket pair feeds the child, so that a child that does not read gives EPIPE, not SIGPIPE.
  int in[2], out[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
    return Internal("cannot make a socket pair for {}: {}", argv[0], std::strerror(errno));
  Fd child_in(in[0]), parent_in(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0)
    return Internal("cannot make a pipe for {}: {}", argv[0], std::strerror(errno));
  Fd parent_out(out[0]), child_out(out[1]);
  Fd null(options.capture ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC));
  Fd null_in(options.input.empty() ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);

  const Waited mine;
  const auto deadline = Clock::now() + options.timeout;
  TORUS_ASSIGN_OR_RETURN(const pid_t pid,
                         Spawn(argv, options, null_in.get() >= 0 ? null_in.get() : child_in.get(),
                               options.capture ? child_out.get() : null.get()));
  FaultPoint("process.started");
  child_in.Close();
  child_out.Close();
  SubprocessResult result;
  int status = -1;
  if (Pump(options, parent_in, parent_out, deadline, result.output))
    status = Wait(pid, deadline, options.stop);
  if (status == -1) {
    Kill(pid);
    if (options.stop.stop_requested()) return Cancelled("{} was ended before it was done", argv[0]);
    return DeadlineExceeded("{} did not finish within {} ms", argv[0], options.timeout.count());
  }
  FaultPoint("process.ended");
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

Result<std::string> RunChecked(const std::vector<std::string>& argv,
                               const SubprocessOptions& options) {
  TORUS_ASSIGN_OR_RETURN(SubprocessResult result, RunSubprocess(argv, options));
  if (result.exit_code == 0) return std::move(result.output);
  std::string_view tail = result.output;
  if (tail.size() > 1000) tail.remove_prefix(tail.size() - 1000);
  while (tail.ends_with('\n')) tail.remove_suffix(1);
  // A program has no other way to say that the disk is full.
  const bool full = tail.find(std::strerror(ENOSPC)) != std::string_view::npos;
  return MakeError(full ? Code::kResourceExhausted : Code::kInternal,
                   "{} {} failed with exit code {}: {}", argv[0], argv.size() > 1 ? argv[1] : "",
                   result.exit_code, tail);
}

void ReapOrphans() {
  const MutexLock lock(waited_mutex);
  if (waited > 0) return;
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace torus
