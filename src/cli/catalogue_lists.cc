// torus accelerator-types list, versions list and locations list: what the service offers.
#include "cli/commands.h"
#include "cli/tpu_vm.h"

namespace torus::cli {
namespace {

struct ListKind {
  const char* group;       // the command's name
  const char* what;        // for people
  const char* collection;  // the part of the URL, and the field of the reply
  const char* columns;
  ZoneFlag zone;
};

constexpr ListKind kAcceleratorTypes{"accelerator-types", "the accelerator types of a zone",
                                     "acceleratorTypes", "type:label=ACCELERATOR_TYPE",
                                     ZoneFlag::kRequired};
constexpr ListKind kVersions{"versions", "the runtime versions of a zone", "runtimeVersions",
                             "version:label=RUNTIME_VERSION", ZoneFlag::kRequired};
constexpr ListKind kLocations{"locations", "the zones that have TPUs", "locations",
                              "locationId:label=LOCATION, name:label=LOCATION_NAME",
                              ZoneFlag::kNone};

Result<int> Run(const CommonFlags& flags, const ListKind& kind, size_t limit) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags));
  const std::string parent = kind.zone == ZoneFlag::kNone
                                 ? "projects/" + flags.project
                                 : NodeName{flags.project, flags.zone, ""}.Parent();
  TORUS_ASSIGN_OR_RETURN(const Json rows,
                         client.List(parent + "/" + kind.collection, kind.collection, limit));
  return PrintList(flags, rows, kind.columns);
}

struct ListFlags {
  CommonFlags common;
  size_t limit = 0;
};

void AddList(CLI::App& parent, Invocation& invocation, const ListKind& kind) {
  const std::string example = std::string("  torus ") + kind.group + " list" +
                              (kind.zone == ZoneFlag::kNone ? "" : " --zone=us-central1-a");
  CLI::App* group = AddCommand(parent, kind.group, std::string("List ") + kind.what, example);
  group->require_subcommand(1);
  auto flags = std::make_shared<ListFlags>();
  CLI::App* command = AddCommand(*group, "list", std::string("List ") + kind.what, example);
  AddCommonFlags(*command, flags->common, kind.zone);
  command->add_option("--limit", flags->limit, "At most this many")->check(CLI::PositiveNumber);
  command->callback([flags, &kind, &invocation] {
    flags->common.Resolve(kind.zone);
    invocation.run = [flags, &kind] { return Run(flags->common, kind, flags->limit); };
  });
}

}  // namespace

void AddAcceleratorTypes(CLI::App& parent, Invocation& invocation) {
  AddList(parent, invocation, kAcceleratorTypes);
}

void AddVersions(CLI::App& parent, Invocation& invocation) {
  AddList(parent, invocation, kVersions);
}

void AddLocations(CLI::App& parent, Invocation& invocation) {
  AddList(parent, invocation, kLocations);
}

}  // namespace torus::cli
