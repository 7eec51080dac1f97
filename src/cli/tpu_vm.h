// What the tpu-vm commands share: a node's name from the command line, and carrying an operation
// through to its end. Thread-safety: none; one thread.
#ifndef TORUS_CLI_TPU_VM_H_
#define TORUS_CLI_TPU_VM_H_

#include <memory>
#include <string>
#include <utility>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/values.h"

namespace torus::cli {

// The flags of a command about one node.
struct NodeFlags {
  CommonFlags common;
  std::string node;    // as typed: a name or a full name
  bool async = false;  // only of commands that make an operation
  NodeName name;       // filled by Resolve

  // As CommonFlags::Resolve; a full name needs no zone. Throws CLI::ValidationError.
  void Resolve(const Invocation& invocation);
};

// The flags of a command that lists.
struct ListFlags {
  CommonFlags common;
  size_t limit = 0;  // 0: all
};

// Adds the positional TPU and the common flags.
void AddNodeFlags(CLI::App& command, NodeFlags& flags);
void AddAsyncFlag(CLI::App& command, NodeFlags& flags);
// Adds --limit and the common flags.
void AddListFlags(CLI::App& command, ListFlags& flags, ZoneFlag zone_flag);

// Has `command`, once it is parsed, resolve its flags and leave `run` to be run with them.
template <typename Flags>
void RunAfterParse(CLI::App& command, Invocation& invocation, std::shared_ptr<Flags> flags,
                   Result<int> (*run)(const Flags&)) {
  command.callback([flags = std::move(flags), run, &invocation] {
    flags->Resolve(invocation);
    invocation.run = [flags, run] { return run(*flags); };
  });
}

// A client for the flags' endpoint.
Result<Client> MakeClient(const CommonFlags& flags);

// Prints a list as the flags' format says, a table of `columns` by default; "Listed 0 items." on
// stderr when there is nothing to show.
Result<int> PrintList(const CommonFlags& flags, const Json& resources, std::string_view columns);
// Prints one resource, as YAML by default.
Result<int> PrintOne(const CommonFlags& flags, const Json& resource, std::string_view columns);

// The words for an operation on a node: "Creating", "Created".
struct Verb {
  std::string_view doing, done;
};

// Waits for the operation on `flags.name` (or says where to look at it, with --async), and prints
// the result if a format was asked for. Returns the exit status.
Result<int> FinishOperation(const Client& client, const NodeFlags& flags, const Json& operation,
                            const Verb& verb);

// Adds a command that asks for one thing of a node, and carries the operation through. `request`
// makes the operation.
void AddNodeCommand(CLI::App& group, Invocation& invocation, const std::string& name,
                    const std::string& help, const std::string& examples, const Verb& verb,
                    Result<Json> (*request)(const Client& client, const NodeFlags& flags));

inline constexpr std::string_view kNodeColumns =
    "name.basename(), name.segment(-3):label=ZONE, "
    "acceleratorType.basename():label=ACCELERATOR_TYPE, "
    "acceleratorConfig.type.basename():label=TYPE, "
    "acceleratorConfig.topology.basename():label=TOPOLOGY, "
    "networkConfig.network.basename():label=NETWORK, cidrBlock:label=RANGE, state:label=STATUS";

inline constexpr std::string_view kOperationColumns =
    "name.basename(), name.segment(-3):label=ZONE, metadata.verb, "
    "metadata.target.basename():label=TARGET, metadata.createTime:label=START_TIME, done, "
    "error.message:label=ERROR";

}  // namespace torus::cli

#endif  // TORUS_CLI_TPU_VM_H_
