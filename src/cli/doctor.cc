// torus doctor: says why a TPU run fails, from its log, by watching it, or before it begins.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "cli/commands.h"
#include "cli/doctor_facts.h"
#include "cli/doctor_watch.h"
#include "doctor/diagnosis.h"
#include "doctor/report.h"

namespace torus::cli {
namespace {

constexpr int kExitFindings = 3;  // something was found, an error or a warning

struct DoctorFlags : SshFlags {
  std::string user_tpu;               // "[USER@]TPU"
  std::vector<std::string> logs;      // "-" is standard input
  std::vector<std::string> to_watch;  // a command
  std::string python;                 // whose packages are looked at
  std::string facts;                  // a file of them, of another machine
  bool show_facts = false;
};

// The Python that a program here would get.
std::string PythonOf(const DoctorFlags& flags) {
  if (!flags.python.empty()) return flags.python;
  if (!flags.to_watch.empty()) {
    const auto& program = flags.to_watch[0];
    if (program.substr(program.rfind('/') + 1).starts_with("python")) return program;
  }
  return "python3";
}

Result<std::vector<Origin>> FactsOf(const DoctorFlags& flags) {
  if (!flags.node.empty()) return FactsOfNode(flags, SplitUser(flags.user_tpu).first);
  Origin here{"here", {}};
  if (!flags.facts.empty()) {
    TORUS_ASSIGN_OR_RETURN(here.facts, FactsOfFile(flags.facts));
  } else if (flags.logs.empty()) {  // a log alone may be of another machine
    TORUS_ASSIGN_OR_RETURN(here.facts, FactsOfPython(PythonOf(flags)));
  }
  return std::vector{here};
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
  const bool ran = !flags.to_watch.empty();
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
  size_t facts = 0;
  TORUS_ASSIGN_OR_RETURN(const auto origins, FactsOf(flags));
  for (const auto& origin : origins) {
    if (flags.show_facts) std::cout << fmt::format("{}\n", fmt::join(origin.facts, "\n"));
    AddFacts(diagnosis, origin);
    facts += origin.facts.size();
  }
  if (flags.show_facts) return kExitOk;
  for (const auto& log : flags.logs) TORUS_RETURN_IF_ERROR(ReadLog(diagnosis, log));
  int ended = 0;
  if (!flags.to_watch.empty()) {
    TORUS_ASSIGN_OR_RETURN(ended, RunAndWatch(diagnosis, flags.to_watch));
  }
  return Say(flags, diagnosis, facts, ended);
}

}  // namespace

void AddDoctor(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = AddCommand(
      parent, "doctor",
      "Say why a TPU run fails, and the cure: before it, from its log, or watching it",
      "  torus doctor                     # this machine and its Python, before anything runs\n"
      "  torus doctor my-first-tpu --zone=us-central1-a\n"
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
  command->add_option("TPU", flags->user_tpu, "A TPU VM to look at, as who, with what runs in it")
      ->type_name("[USER@]TPU");
  AddSshFlags(*command, *flags);
  AddCommonFlags(*command, flags->common, ZoneFlag::kRequired);
  command->callback([flags, &invocation] {
    flags->node = SplitUser(flags->user_tpu).second;
    if (flags->node.empty()) {
      flags->common.Resolve(invocation, ZoneFlag::kNone);
    } else {
      flags->Resolve(invocation);
    }
    if (flags->dry_run)
      throw CLI::ValidationError("--dry-run",
                                 "torus doctor changes nothing but the node's ssh keys");
    invocation.takes_after_dashes = true;
    flags->to_watch = invocation.after_dashes;
    if (!flags->common.format.empty() && flags->common.format != "json")
      throw CLI::ValidationError("--format", "torus doctor prints text or json");
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
