// The tree of commands: each function hangs one command (or group) under `parent`, and what its
// callback parses into `invocation`. The flags live as long as the App does.
#ifndef TORUS_CLI_COMMANDS_H_
#define TORUS_CLI_COMMANDS_H_

#include <memory>

#include "cli/command.h"

namespace torus::cli {

// The whole tree, ready to parse.
std::unique_ptr<CLI::App> MakeApp(Invocation& invocation);

void AddTpuVm(CLI::App& parent, Invocation& invocation);
void AddTpuVmCreate(CLI::App& parent, Invocation& invocation);
void AddTpuVmList(CLI::App& parent, Invocation& invocation);
void AddTpuVmDescribe(CLI::App& parent, Invocation& invocation);
void AddTpuVmSsh(CLI::App& parent, Invocation& invocation);
void AddTpuVmScp(CLI::App& parent, Invocation& invocation);
void AddTpuVmStart(CLI::App& parent, Invocation& invocation);
void AddTpuVmStop(CLI::App& parent, Invocation& invocation);
void AddTpuVmDelete(CLI::App& parent, Invocation& invocation);
void AddTpuVmUpdate(CLI::App& parent, Invocation& invocation);
void AddOperations(CLI::App& parent, Invocation& invocation);
void AddAcceleratorTypes(CLI::App& parent, Invocation& invocation);
void AddVersions(CLI::App& parent, Invocation& invocation);
void AddLocations(CLI::App& parent, Invocation& invocation);
void AddEnv(CLI::App& parent, Invocation& invocation);
void AddRun(CLI::App& parent, Invocation& invocation);
void AddDoctor(CLI::App& parent, Invocation& invocation);
void AddCompletion(CLI::App& parent, Invocation& invocation);
void AddMan(CLI::App& parent, Invocation& invocation);

}  // namespace torus::cli

#endif  // TORUS_CLI_COMMANDS_H_
