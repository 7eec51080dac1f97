#include "worker/worker_main.h"

#include <fcntl.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/process.h"
#include "worker/agent.h"
#include "worker/disk.h"
#include "worker/limits.h"
#include "worker/link.h"
#include "worker/mounts.h"

namespace torus::worker {
namespace {

constexpr int kProtocolVersion = 1;
constexpr auto kLockTime = std::chrono::seconds(5);
constexpr size_t kMaxLog = 4 << 20;
#ifndef TORUS_BUILD
#define TORUS_BUILD "unknown"
#endif

struct Options {
  std::string socket, dir, node_uid;
  int index = 0;
  bool detach = false, purge = false;
};

int Parse(int argc, char** argv, Options& options) {
  CLI::App app("the agent of one TPU VM; started by `torus serve`", "torus worker");
  app.add_option("--socket", options.socket, "the service's Unix socket");
  app.add_option("--dir", options.dir, "the VM's folder")->required();
  app.add_option("--node-uid", options.node_uid, "the node's uid")->required();
  app.add_option("--index", options.index, "the host's index in the slice")->required();
  app.add_flag("--detach", options.detach, "return when the agent runs on its own");
  app.add_flag("--purge", options.purge, "take down and remove the VM, and return");
  try {
    // CLI11 takes the arguments in reverse order.
    std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    std::ranges::reverse(arguments);
    app.parse(std::move(arguments));
    if (options.socket.empty() && !options.purge) throw CLI::RequiredError("--socket");
    if (!options.dir.starts_with('/')) throw CLI::ValidationError("--dir", "is not absolute");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return -1;
}

std::string LogFile(const std::string& dir) { return dir + "/log/worker.log"; }

// Output to the log file, for what is not logged: the last words of a crash.
Status RedirectOutput(const std::string& dir) {
  TORUS_RETURN_IF_ERROR(MakeFolders(dir + "/log", 0700));
  const std::string path = LogFile(dir);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int log = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0 || null < 0) return ErrnoStatus(errno, "open", path);
  dup2(null, 0);
  dup2(log, 1);
  dup2(log, 2);
  close(null);
  close(log);
  return {};
}

// Goes on in a process of its own session and returns where it is to say how its start went. The
// caller's process waits for that and ends with the status's code as its exit status, 0: well.
Result<Fd> Detach() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Error(ErrnoStatus(errno, "make a pipe for", "the worker"));
  Fd from_worker(ends[0]), to_starter(ends[1]);
  const pid_t child = fork();
  if (child < 0) return Error(ErrnoStatus(errno, "fork", "the worker"));
  if (child == 0) {
    setsid();
    if (chdir("/") != 0) return Error(ErrnoStatus(errno, "enter", "/"));
    return to_starter;
  }
  to_starter.Close();
  unsigned char code = static_cast<unsigned char>(Code::kInternal);
  if (read(from_worker.get(), &code, 1) != 1)
    std::fputs("the worker ended before it had started\n", stderr);
  char text[4096];
  for (ssize_t n; (n = read(from_worker.get(), text, sizeof(text))) > 0;)
    (void)!write(STDERR_FILENO, text, static_cast<size_t>(n));
  _exit(code);
}

// Says to the process that waits in Detach how the start went.
void TellStarter(Fd starter, const Status& status) {
  if (!starter) return;
  const std::string text =
      std::string(1, static_cast<char>(status.code())) + std::string(status.message());
  (void)!write(starter.get(), text.data(), text.size());
}

// Takes the VM's lock, held until the process ends: who has it is the worker. False: another has.
Result<bool> BecomeTheWorker(const std::string& dir) {
  TORUS_RETURN_IF_ERROR(MakeFolders(dir, 0700));
  TORUS_RETURN_IF_ERROR(MakeFolders(dir + "/run", 0700));
  const std::string path = dir + "/run/lock";
  // A worker that was killed lets go of it with the last of its threads, a moment after it is dead.
  const auto deadline = std::chrono::steady_clock::now() + kLockTime;
  for (;;) {
    TORUS_ASSIGN_OR_RETURN(const bool taken, TakeLock(path));
    if (taken) break;
    if (LockHolder(path) || std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  FaultPoint("worker.lock");
  return true;
}

// A VM's limits for a process are this one's, by inheritance: setting them from outside takes
// CAP_SYS_RESOURCE, which root in a container lacks. A VM's core would go where the host's go.
Status SetProcessLimits() {
  const auto files = static_cast<rlim_t>(ResolveLimits(ReadHostSize(), 0, 0, 0, 0).open_files);
  const rlimit open_files{files, files}, no_core{0, 0};
  if (setrlimit(RLIMIT_NOFILE, &open_files) != 0 || setrlimit(RLIMIT_CORE, &no_core) != 0)
    return ErrnoStatus(errno, "set", "the limits of a process");
  return {};
}

Status PrepareProcess() {
  if (geteuid() != 0)
    return FailedPrecondition("a TPU VM needs root; without it use torus serve --backend=fake");
  std::signal(SIGPIPE, SIG_IGN);
  // A service's ^C is not the VM's.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  prctl(PR_SET_NAME, "torus-worker");
  // The sandbox's first process comes to us when runc ends, not to a distant init.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  TORUS_RETURN_IF_ERROR(SetProcessLimits());
  return EnterPrivateMounts();
}

Status Purge(Sandbox& sandbox) {
  TORUS_RETURN_IF_ERROR(sandbox.TakeDown(/*gently=*/false));
  return sandbox.RemoveFiles();
}

void Serve(const Options& options, const ProcessIdentity& self, Sandbox& sandbox) {
  Hello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_build(TORUS_BUILD);
  hello.set_node_uid(options.node_uid);
  hello.set_worker_index(options.index);
  hello.set_pid(self.pid);
  hello.set_start_time_ticks(self.start_ticks);
  Link* line = nullptr;
  Agent agent(sandbox, [&line](Observed observed) { line->Report(std::move(observed)); });
  Link link(options.socket, hello, [&agent](const WorkerOrder& order) { agent.SetOrder(order); });
  line = &link;
  const DiskKeeper keeper(sandbox.paths().disk_file());
  agent.Run();
  // The service may be away: it finds the folder gone when it is back.
  link.Flush(std::chrono::seconds(10));
}

// Logs to the log file, which is bounded, with one before it: a VM gives its worker things to say
// for as long as it likes. A worker in the foreground logs to its standard error; so does one whose
// log file cannot be opened.
void StartLog(const Options& options) {
  spdlog::sink_ptr sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  try {
    if (options.detach)
      sink =
          std::make_shared<spdlog::sinks::rotating_file_sink_mt>(LogFile(options.dir), kMaxLog, 1);
  } catch (const spdlog::spdlog_ex&) {
  }
  auto logger = std::make_shared<spdlog::logger>("worker", std::move(sink));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

// What must be right before there is a worker. False: the VM has another already.
Result<bool> Prepare(const Options& options) {
  if (options.detach) TORUS_RETURN_IF_ERROR(RedirectOutput(options.dir));
  StartLog(options);
  TORUS_RETURN_IF_ERROR(PrepareProcess());
  return BecomeTheWorker(options.dir);
}

Status Work(const Options& options) {
  Fd starter;
  if (options.detach) {
    TORUS_ASSIGN_OR_RETURN(starter, Detach());
  }
  const auto first = Prepare(options);
  TellStarter(std::move(starter), first ? Status() : Status(first.error()));
  if (!first) return first.error();
  if (!*first) {
    if (options.purge) return FailedPrecondition("{} has a living worker", options.dir);
    spdlog::info("this VM has a worker already");
    return {};
  }
  const auto self = IdentifyProcess(getpid());
  if (!self) return Internal("cannot read /proc/self/stat");
  Sandbox sandbox(VmPaths(options.dir, options.node_uid, options.index));
  if (options.purge) return Purge(sandbox);
  spdlog::info("worker {} of node {} is process {}", options.index, options.node_uid, self->pid);
  Serve(options, *self, sandbox);
  spdlog::info("the VM is deleted");
  return {};
}

}  // namespace

int WorkerMain(int argc, char** argv) {
  // The service's umask may be anything; a VM's users are strangers to the files made for them.
  umask(022);
  Options options;
  if (const int code = Parse(argc, argv, options); code >= 0) return code;
  const Status status = Work(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "torus worker: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace torus::worker
