// torus doctor: says why a TPU run fails, from its log, by watching it, or before it begins.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>

#include "base/fd.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "cli/commands.h"
#include "doctor/diagnosis.h"
#include "doctor/facts.h"
#include "doctor/log_text.h"
#include "doctor/report.h"

namespace torus::cli {
namespace {

constexpr char kFactsScript[] =
#include "doctor_facts.inc"
    ;

constexpr int kExitFindings = 3;  // something was found, an error or a warning

struct DoctorFlags {
  CommonFlags common;
  std::vector<std::string> logs;     // "-" is standard input
  std::vector<std::string> command;  // to be run
  std::string python;                // whose packages are looked at
  std::string facts;                 // a file of them, of another machine
  bool show_facts = false;
};

using Facts = std::vector<std::string>;

Facts LinesOf(const std::string& text) {
  Facts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) facts.push_back(line);
  return facts;
}

// The Python that a program here would get.
std::string PythonOf(const DoctorFlags& flags) {
  if (!flags.python.empty()) return flags.python;
  if (!flags.command.empty()) {
    const auto& program = flags.command[0];
    if (program.substr(program.rfind('/') + 1).starts_with("python")) return program;
  }
  return "python3";
}

Result<Facts> FactsOf(const DoctorFlags& flags) {
  if (!flags.facts.empty()) {
    TORUS_ASSIGN_OR_RETURN(const auto text, ReadFile(flags.facts));
    return LinesOf(text);
  }
  const auto python = PythonOf(flags);
  const auto said = RunChecked({python, "-c", kFactsScript});
  if (said) return LinesOf(*said);
  if (said.error().code() != Code::kNotFound) return std::unexpected(said.error());
  return NotFound("{} is not here; --python=PATH names the Python whose packages to look at",
                  python);
}

void AddFacts(doctor::Diagnosis& diagnosis, const Facts& facts) {
  for (const auto& fact : facts) diagnosis.AddFact("here", fact);
  for (const auto& fact : doctor::Conclusions(facts)) diagnosis.AddFact("here", fact);
}

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

// Runs the command with its output in front of the user, and returns its exit status.
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

bool IsSerious(const std::vector<doctor::Finding>& findings) {
  return std::ranges::any_of(
      findings, [](const auto& finding) { return finding.severity != doctor::Severity::kAdvice; });
}

std::string Healthy(int64_t lines, size_t facts) {
  if (lines > 0) return fmt::format("Nothing is known to be wrong in {} lines.", lines);
  if (facts == 0) {
    return "Neither a TPU nor a framework is here; --python=PATH names another Python, --log=FILE "
           "a "
           "log.";
  }
  return fmt::format("Nothing is known to be wrong in {} facts; --show-facts prints them.", facts);
}

// After a command the diagnosis is no part of its output.
Result<int> Say(const DoctorFlags& flags, const doctor::Diagnosis& diagnosis, size_t facts,
                int ended) {
  const auto findings = diagnosis.Findings();
  const bool ran = !flags.command.empty();
  std::ostream& out = ran ? std::cerr : std::cout;
  if (flags.common.format == "json") {
    out << doctor::ToJson(findings) << std::flush;
  } else {
    const bool colour =
        isatty(ran ? STDERR_FILENO : STDOUT_FILENO) != 0 && !std::getenv("NO_COLOR");
    out << (ran ? "\n" : "") << doctor::ToText(findings, Healthy(diagnosis.lines(), facts), colour)
        << std::flush;
  }
  if (ended != 0) return ended;
  return IsSerious(findings) ? kExitFindings : kExitOk;
}

Result<int> Run(const DoctorFlags& flags) {
  doctor::Diagnosis diagnosis;
  Facts facts;
  // A log alone may be of another machine.
  if (flags.logs.empty() || !flags.facts.empty()) {
    TORUS_ASSIGN_OR_RETURN(facts, FactsOf(flags));
  }
  if (flags.show_facts) {
    std::cout << fmt::format("{}", fmt::join(facts, "\n")) << std::endl;
    return kExitOk;
  }
  AddFacts(diagnosis, facts);
  for (const auto& log : flags.logs) TORUS_RETURN_IF_ERROR(ReadLog(diagnosis, log));
  int ended = 0;
  if (!flags.command.empty()) {
    TORUS_ASSIGN_OR_RETURN(ended, RunAndWatch(diagnosis, flags.command));
  }
  return Say(flags, diagnosis, facts.size(), ended);
}

}  // namespace

void AddDoctor(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = AddCommand(
      parent, "doctor",
      "Say why a TPU run fails, and the cure: before it, from its log, or watching it",
      "  torus doctor                     # this machine and its Python, before anything runs\n"
      "  torus doctor --log train.log\n"
      "  gcloud compute tpus tpu-vm ssh my-first-tpu --command='python3 train.py' 2>&1 |\n"
      "    torus doctor --log -\n"
      "  torus doctor -- python3 train.py\n\n"
      "Logs of TensorFlow, JAX, PyTorch and gcloud, from a real Cloud TPU, too. The exit status is "
      "3\n"
      "where an error or a warning was found; after a command that failed, the command's own.");
  command->add_option("--log", flags->logs, "A log to read; - is standard input. May be repeated")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--python", flags->python,
                   "The Python whose packages are looked at [the command's own, or python3]")
      ->type_name("PATH");
  command->add_flag("--show-facts", flags->show_facts,
                    "Print what is seen of this machine and its Python, a fact a line");
  command
      ->add_option("--facts", flags->facts, "Facts of another machine, as --show-facts prints them")
      ->type_name("FILE");
  AddCommonFlags(*command, flags->common, ZoneFlag::kNone);
  command->callback([flags, &invocation] {
    flags->common.Resolve(invocation, ZoneFlag::kNone);
    invocation.takes_after_dashes = true;
    flags->command = invocation.after_dashes;
    if (!flags->common.format.empty() && flags->common.format != "json")
      throw CLI::ValidationError("--format", "torus doctor prints text or json");
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
