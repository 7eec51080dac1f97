// torus run: a program on this machine's software TPU, without a TPU VM.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/installation.h"
#include "cli/commands.h"

namespace torus::cli {
namespace {

struct RunFlags {
  std::string accelerator_type;
  bool auto_tpu = false, require_tpu = false;
  std::vector<std::string> command;
};

void Set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

// A library that the user named is kept: it may be of a real TPU.
Status FindTheTpu() {
  if (!Environment("TPU_LIBRARY_PATH").empty()) return {};
  const std::filesystem::path libtpu = InstalledLibtpu();
  if (access(libtpu.c_str(), R_OK) != 0)
    return FailedPrecondition(
        "cannot read {}, the software TPU: {}. Install Torus whole, or name a libtpu.so in "
        "TPU_LIBRARY_PATH",
        libtpu.string(), std::strerror(errno));
  Set("TPU_LIBRARY_PATH", libtpu);
  if (Environment("TORUS_ENGINE").empty())
    Set("TORUS_ENGINE", libtpu.parent_path() / "engine/xla_cpu.so");
  // TensorFlow has a lock of its own, one for all TPUs of a machine (docs/tensorflow.md).
  setenv("TPU_LOAD_LIBRARY", "1", 0);
  return {};
}

// `import torus_tpu` works in the program, if it is of Python.
void AddPython() {
  const auto folder = std::filesystem::path(InstalledLibtpu()).parent_path() / "python/startup";
  const std::string others = Environment("PYTHONPATH");
  Set("PYTHONPATH", others.empty() ? folder.string() : folder.string() + ":" + others);
}

Result<int> Run(const RunFlags& flags) {
  TORUS_RETURN_IF_ERROR(FindTheTpu());
  AddPython();
  if (!flags.accelerator_type.empty()) Set("TPU_ACCELERATOR_TYPE", flags.accelerator_type);
  if (flags.auto_tpu) Set("TORUS_AUTO_TPU", "1");
  if (flags.require_tpu) Set("TORUS_AUTO_TPU", "required");
  std::vector<char*> arguments;
  for (const std::string& word : flags.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  if (errno == ENOENT) return NotFound("{}: there is no such program", flags.command[0]);
  return FailedPrecondition("cannot run {}: {}", flags.command[0], std::strerror(errno));
}

}  // namespace

void AddRun(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = AddCommand(
      parent, "run", "Run a program here, on the software TPU",
      "  torus run python3 train.py\n"
      "  torus run --accelerator-type=v5litepod-4 python3 train.py\n"
      "  torus run --auto-tpu python3 train.py   # one that forgot tf.distribute.TPUStrategy\n\n"
      "The exit status is the program's. Variables that are set are kept: TPU_LIBRARY_PATH names\n"
      "another libtpu.so, TPU_NAME a TPU for TensorFlow that is elsewhere.");
  command->prefix_command();
  command
      ->add_option("--accelerator-type", flags->accelerator_type,
                   "The slice that the program sees [v4-8]")
      ->type_name("TYPE");
  command->add_flag("--auto-tpu", flags->auto_tpu,
                    "Make the TPU's strategy TensorFlow's default, before the program builds its "
                    "model");
  command->add_flag("--require-tpu", flags->require_tpu,
                    "As --auto-tpu, and end the program with an error where there is no TPU");
  command->callback([flags, command, &invocation] {
    flags->command = command->remaining();
    invocation.takes_after_dashes = true;
    if (!flags->command.empty() && !invocation.after_dashes.empty())
      flags->command.emplace_back("--");  // the program's own
    flags->command.insert(flags->command.end(), invocation.after_dashes.begin(),
                          invocation.after_dashes.end());
    if (flags->command.empty())
      throw CLI::ValidationError("COMMAND", "give a program to run: torus run python3 train.py");
    if (flags->command[0].starts_with("-"))
      throw CLI::ValidationError(flags->command[0],
                                 "torus run has no such flag; a program's own go after its name");
    invocation.run = [flags] { return Run(*flags); };
  });
}

}  // namespace torus::cli
