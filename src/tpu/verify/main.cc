// torus-verify: compiles what a program of the software TPU compiles with another libtpu, too, and
// says on stderr what comes out.
//
//   torus-verify LIBRARY TOPOLOGY DEVICE_KIND    started by libtpu.so, with a socket as its input
//
// The library runs in a process of its own, which may hang or crash: a new one is then made for the
// next program. A program that fails there is told at once; the others when the input ends, the
// worst first. After that end it goes on for a while only, so that nobody waits for it.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <vector>

#include "tpu/device/hbm.h"
#include "tpu/verify/ahead_of_time.h"

namespace torus::tpu::verify {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr seconds kToLoad{120}, kToCompile{300}, kAfterTheEnd{120};
constexpr int kMostCrashes = 3;

// One write, so that lines of others do not come between.
void Say(const std::string& text) {
  const std::string lines = text + "\n";
  if (write(STDERR_FILENO, lines.data(), lines.size()) < 0) return;  // nobody reads
}

// ---- The library's process

[[noreturn]] void RunLibrary(int socket, const std::string& path, const std::string& topology) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nowhere = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, fd);
  auto library = AheadOfTime::Open(path, topology);
  if (!Send(socket, library ? std::string() : library.error().message()) || !library) _exit(1);
  while (const auto frame = Receive(socket)) {
    if (!Send(socket, Write(library->Compile(ReadRequest(*frame))))) break;
  }
  _exit(0);
}

class Library {
 public:
  Library(std::string path, std::string topology)
      : path_(std::move(path)), topology_(std::move(topology)) {}

  bool Start() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      RunLibrary(ends[1], path_, topology_);
    }
    close(ends[1]);
    socket_ = ends[0];
    return pid_ > 0;
  }

  // Ends the process, if there is one. How it ended: "signal 6 (Aborted)".
  std::string Stop() {
    if (pid_ <= 0) return "";
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
    }
    close(socket_);
    pid_ = socket_ = -1;
    if (!WIFSIGNALED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }

  bool is_up() const { return pid_ > 0; }
  int socket() const { return socket_; }

 private:
  const std::string path_, topology_;
  pid_t pid_ = -1;
  int socket_ = -1;
};

// ---- What is said of a program

double Ratio(double theirs, double ours) { return ours > 0 ? theirs / ours : 1; }

struct Checked {
  Request request;
  Estimate theirs;

  // How much more the real chip needs, of memory or of time.
  double badness() const {
    return std::max(
        Ratio(static_cast<double>(theirs.memory), static_cast<double>(request.ours.memory)),
        Ratio(theirs.seconds, request.ours.seconds));
  }
};

std::string Microseconds(double seconds) {
  return seconds < 0 ? "unknown time" : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string Text(const Estimate& estimate) {
  if (!estimate.error.empty()) return estimate.error.substr(0, estimate.error.find('\n'));
  return fmt::format("HBM {}, {:.4g} flops, {:.4g} bytes, {}", FormatBytes(estimate.memory),
                     estimate.flops, estimate.bytes, Microseconds(estimate.seconds));
}

std::string Block(const Checked& checked, const std::string& kind) {
  const auto& [request, theirs] = checked;
  const char* verdict = theirs.error.empty() ? "compiles for" : "DOES NOT COMPILE for";
  return fmt::format("torus-verify: {} {} a real {} (HBM {})\n  real: {}\n  ours: {}", request.name,
                     verdict, kind, FormatBytes(request.memory_limit), Text(theirs),
                     Text(request.ours));
}

// ---- The supervisor

class Supervisor {
 public:
  Supervisor(std::string path, std::string topology, std::string kind)
      : path_(path), kind_(std::move(kind)), library_(std::move(path), std::move(topology)) {}

  void Run() {
    while (!IsDone()) {
      if (!given_up_ && !is_busy_ && !waiting_.empty()) Next();
      Wait();
    }
    library_.Stop();
    std::ranges::sort(good_, std::ranges::greater(), &Checked::badness);
    for (const Checked& each : good_) Say(Block(each, kind_));
    std::vector<std::string> left;
    if (is_busy_ && !is_loading_) left.push_back(current_.name);
    for (const auto& frame : waiting_) left.push_back(ReadRequest(frame).name);
    if (!left.empty()) {
      Say(fmt::format("torus-verify: no time was left for {}.", fmt::join(left, ", ")));
    }
  }

 private:
  bool IsDone() const {
    if (!ended_) return false;
    return given_up_ || (!is_busy_ && waiting_.empty()) || Clock::now() >= end_;
  }

  // Starts the library or gives it the next program.
  void Next() {
    is_busy_ = true;
    if (!library_.is_up()) {
      is_loading_ = true;
      deadline_ = Clock::now() + kToLoad;
      if (!library_.Start()) GiveUp("its process cannot be started");
      return;
    }
    deadline_ = Clock::now() + kToCompile;
    current_ = ReadRequest(waiting_.front());
    const bool sent = Send(library_.socket(), waiting_.front());
    waiting_.pop_front();
    if (!sent) Lost("ended");
  }

  void Wait() {
    pollfd polled[] = {{ended_ ? -1 : STDIN_FILENO, POLLIN, 0}, {library_.socket(), POLLIN, 0}};
    const auto now = Clock::now();
    auto until = now + seconds(1);
    if (is_busy_) until = std::min(until, deadline_);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    poll(polled, 2, std::max<int>(0, static_cast<int>(left.count())));
    if (polled[0].revents != 0) Hear();
    if (is_busy_ && polled[1].revents != 0) Answered();
    if (is_busy_ && Clock::now() >= deadline_) Lost("took too long");
  }

  void Hear() {
    auto frame = Receive(STDIN_FILENO);
    if (frame) {
      if (!given_up_) waiting_.push_back(*std::move(frame));
    } else {
      ended_ = true;
      end_ = Clock::now() + kAfterTheEnd;
    }
  }

  void Answered() {
    const auto frame = Receive(library_.socket());
    if (!frame) return Lost("ended");
    is_busy_ = false;
    if (is_loading_) {
      is_loading_ = false;
      if (!frame->empty()) GiveUp(*frame);
      return;
    }
    Checked checked{std::move(current_), ReadEstimate(*frame)};
    if (checked.theirs.error.empty()) {
      good_.push_back(std::move(checked));
    } else {
      Say(Block(checked, kind_));
    }
  }

  // The library's process is gone, or is ended here.
  void Lost(const char* how) {
    const std::string ending = library_.Stop();
    is_busy_ = false;
    if (is_loading_) return GiveUp(fmt::format("loading it {}, {}", how, ending));
    Say(fmt::format("torus-verify: {}: compiling it with {} {}, {}.", current_.name, path_, how,
                    ending));
    if (++crashes_ == kMostCrashes) GiveUp("that is enough of it");
  }

  void GiveUp(const std::string& why) {
    Say(
        fmt::format("torus-verify: no program is checked with {}: {}. TORUS_VERIFY_WITH names the "
                    "libtpu.so of a package that you installed.",
                    path_, why));
    given_up_ = true;
    is_busy_ = false;
    waiting_.clear();
  }

  const std::string path_, kind_;
  Library library_;
  std::deque<std::string> waiting_;  // frames
  Request current_;
  std::vector<Checked> good_;
  bool is_busy_ = false, is_loading_ = false, ended_ = false, given_up_ = false;
  int crashes_ = 0;
  Clock::time_point deadline_, end_;
};

}  // namespace
}  // namespace torus::tpu::verify

int main(int argc, char** argv) {
  using namespace torus::tpu::verify;
  if (argc != 4) {
    Say("usage: torus-verify LIBRARY TOPOLOGY DEVICE_KIND, started by libtpu.so");
    return 2;
  }
  // A child of nobody that waits for children.
  if (fork() > 0) return 0;
  Supervisor(argv[1], argv[2], argv[3]).Run();
  return 0;
}
