// torus operations list, describe and cancel
#include <iostream>

#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {
namespace {

struct OperationFlags {
  CommonFlags common;
  std::string operation;  // an id or a full name

  std::string FullName() const {
    if (operation.find('/') != operation.npos) return operation;
    return NodeName{common.project, common.zone, ""}.Parent() + "/operations/" + operation;
  }
};

Result<int> List(const ListFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  const NodeName where{flags.common.project, flags.common.zone, ""};
  TORUS_ASSIGN_OR_RETURN(const Json operations,
                         client.List(where.Parent() + "/operations", "operations", flags.limit));
  return PrintList(flags.common, operations, kOperationColumns);
}

Result<int> Describe(const OperationFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  TORUS_ASSIGN_OR_RETURN(const Json operation, client.Get(flags.FullName()));
  return PrintOne(flags.common, operation, kOperationColumns);
}

Result<int> Cancel(const OperationFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  TORUS_RETURN_IF_ERROR(client.Post(flags.FullName() + ":cancel", Json::object()));
  std::cerr << "Asked to cancel operation [" << Basename(flags.operation) << "]." << std::endl;
  return kExitOk;
}

void AddOne(CLI::App& group, Invocation& invocation, const std::string& name,
            const std::string& help, Result<int> (*run)(const OperationFlags&)) {
  auto flags = std::make_shared<OperationFlags>();
  CLI::App* command = AddCommand(
      group, name, help,
      "  torus operations " + name + " operation-1700000000000-abc --zone=us-central1-a");
  command->add_option("OPERATION", flags->operation, "The operation's id or full name")
      ->type_name("OPERATION")
      ->required();
  AddCommonFlags(*command, flags->common, ZoneFlag::kRequired);
  command->callback([flags, run, &invocation] {
    const bool full_name = flags->operation.find('/') != std::string::npos;
    flags->common.Resolve(invocation, full_name ? ZoneFlag::kOrAll : ZoneFlag::kRequired);
    invocation.run = [flags, run] { return run(*flags); };
  });
}

}  // namespace

void AddOperations(CLI::App& parent, Invocation& invocation) {
  CLI::App* group = AddGroup(parent, invocation, "operations",
                             "Look at what was asked of the service, or cancel it",
                             "  torus operations list --zone=us-central1-a");
  auto flags = std::make_shared<ListFlags>();
  CLI::App* list = AddCommand(*group, "list", "List operations of a zone, or of all zones",
                              "  torus operations list");
  AddListFlags(*list, *flags, ZoneFlag::kOrAll);
  list->callback([flags, &invocation] {
    flags->common.Resolve(invocation, ZoneFlag::kOrAll);
    invocation.run = [flags] { return List(*flags); };
  });
  AddOne(*group, invocation, "describe", "Show all about an operation", Describe);
  AddOne(*group, invocation, "cancel", "Ask an operation to stop", Cancel);
}

}  // namespace torus::cli
