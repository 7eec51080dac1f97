// The process, one a topology, and what it is told.
#include "tpu/device/verify.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <unordered_set>

#include "base/mutex.h"
#include "tpu/verify/message.h"

namespace torus::tpu {
namespace {

constexpr char kVariable[] = "TORUS_VERIFY_WITH";
constexpr char kProgram[] = "torus-verify";

const char* Library() {
  static const char* const path = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe)
  return path == nullptr || *path == '\0' ? nullptr : path;
}

void Say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

// Beside libtpu.so, or beside the file that it is a link to.
std::string ProgramPath() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&ProgramPath), &info) == 0) return {};
  const std::filesystem::path own = info.dli_fname;
  std::error_code error;
  for (const auto& file : {own, std::filesystem::canonical(own, error)}) {
    const auto path = file.parent_path() / kProgram;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return own.parent_path() / kProgram;
}

// What Google's libtpu wants, to work without a TPU; nothing of this process's own settings.
std::vector<std::string> Environment(const std::string& accelerator_type) {
  std::vector<std::string> variables{"TPU_SKIP_MDS_QUERY=1", "TPU_WORKER_HOSTNAMES=localhost",
                                     "TPU_ACCELERATOR_TYPE=" + accelerator_type};
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable(*each);
    if (variable.starts_with("TPU_") || variable.starts_with("TORUS_")) continue;
    variables.emplace_back(variable);
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts the process; the socket to it, or -1.
int Start(const Slice& slice) {
  const auto& type = *hardware::Catalogue::BuiltIn().FindAcceleratorType(slice.accelerator_type());
  const auto& generation = *type.generation;
  const std::string path = ProgramPath();
  std::vector<std::string> arguments{
      path, Library(), fmt::format("{}:{}", generation.name, type.topology.ToString()),
      generation.device_kind};
  auto environment = Environment(type.name);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, path.c_str(), &actions, nullptr, Pointers(arguments).data(),
                                 Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed == 0) {
    waitpid(pid, nullptr, 0);  // It leaves at once; what works is its child.
    return ends[0];
  }
  close(ends[0]);
  Say(fmt::format("{} has no effect: {} cannot be started ({}). It belongs beside libtpu.so.",
                  kVariable, path, std::strerror(failed)));  // NOLINT(concurrency-mt-unsafe)
  return -1;
}

struct Processes {
  Mutex mutex;
  std::map<std::string, int> sockets TORUS_GUARDED_BY(mutex);  // by accelerator type; -1: lost
  std::unordered_set<size_t> sent TORUS_GUARDED_BY(mutex);     // hashes of programs
};

void Send(const Slice& slice, const std::string& frame, size_t hash) {
  static Processes& processes = *new Processes;
  const MutexLock lock(processes.mutex);
  if (!processes.sent.insert(hash).second) return;
  auto [socket, is_new] = processes.sockets.try_emplace(slice.accelerator_type(), -1);
  if (is_new) socket->second = Start(slice);
  if (socket->second < 0 || verify::Send(socket->second, frame)) return;
  Say(fmt::format("{} has no effect any more: torus-verify is gone or hangs.", kVariable));
  close(socket->second);
  socket->second = -1;
}

std::string TextOf(State& s, PJRT_Error* error) {
  auto message = pjrt::MakeArgs<PJRT_Error_Message_Args>();
  message.error = error;
  s.engine.Message(&message);
  auto code = pjrt::MakeArgs<PJRT_Error_GetCode_Args>();
  code.error = error;
  const bool known = s.engine.GetCode(&code) == nullptr;
  return Status(known ? static_cast<Code>(code.code) : Code::kUnknown,
                std::string(message.message, message.message_size))
      .ToString();
}

}  // namespace

bool IsVerifying() { return Library() != nullptr; }

void Verify(State& s, const PJRT_Client_Compile_Args& args, PJRT_Error* error) {
  const auto client = s.clients.Find(args.client);
  if (!client || args.program == nullptr) return;
  verify::Request request{.name = "a program",
                          .code = std::string(args.program->code, args.program->code_size),
                          .format = std::string(args.program->format, args.program->format_size),
                          .options = std::string(args.compile_options, args.compile_options_size),
                          .memory_limit = (*client)->slice.generation().usable_hbm_bytes};
  if (error != nullptr) {
    request.ours.error = TextOf(s, error);
  } else if (const auto program = s.programs.Find(args.executable)) {
    request.name = (*program)->name;
    if ((*program)->facts != nullptr) {
      const Compiled& compiled = (*program)->facts->compiled;
      request.ours.memory = compiled.memory.total();
      request.ours.flops = compiled.cost.flops;
      request.ours.bytes = compiled.cost.bytes;
      request.ours.seconds = compiled.cost.seconds;
    }
  }
  const size_t hash = std::hash<std::string>()(request.code + request.options);
  Send((*client)->slice, verify::Write(request), hash);
}

}  // namespace torus::tpu
