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

Result<int> Run(const ListFlags& list_flags, const ListKind& kind) {
  const CommonFlags& flags = list_flags.common;
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags));
  const std::string parent = kind.zone == ZoneFlag::kNone
                                 ? "projects/" + flags.project
                                 : NodeName{flags.project, flags.zone, ""}.Parent();
  TORUS_ASSIGN_OR_RETURN(const Json rows, client.List(parent + "/" + kind.collection,
                                                      kind.collection, list_flags.limit));
  return PrintList(flags, rows, kind.columns);
}

void AddList(CLI::App& parent, Invocation& invocation, const ListKind& kind) {
  const std::string example = std::string("  torus ") + kind.group + " list" +
                              (kind.zone == ZoneFlag::kNone ? "" : " --zone=us-central1-a");
  CLI::App* group =
      AddGroup(parent, invocation, kind.group, std::string("List ") + kind.what, example);
  auto flags = std::make_shared<ListFlags>();
  CLI::App* command = AddCommand(*group, "list", std::string("List ") + kind.what, example);
  AddListFlags(*command, *flags, kind.zone);
  command->callback([flags, &kind, &invocation] {
    flags->common.Resolve(invocation, kind.zone);
    invocation.run = [flags, &kind] { return Run(*flags, kind); };
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
