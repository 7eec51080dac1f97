// torus tpu-vm update
#include "cli/tpu_vm_update.h"

#include <set>

#include "cli/commands.h"

namespace torus::cli {
namespace {

constexpr Verb kVerb{"Updating", "Updated"};

// A map field after clear, update and remove.
Result<Json> Edit(const Json& before, bool clear, const std::vector<std::string>& update,
                  const std::string& remove) {
  Json after = clear ? Json::object() : before;
  TORUS_ASSIGN_OR_RETURN(const auto updates, ParseMap(update));
  for (const auto& [key, value] : updates) after[key] = value;
  for (const std::string& key : ParseList(remove)) after.erase(key);
  return after;
}

// Adds a field to the change if its value is new.
void Set(Change& change, const Json& node, const std::string& field, Json after,
         const Json& empty) {
  if (node.value(field, empty) == after) return;
  change.node[field] = std::move(after);
  change.mask.push_back(field);
}

std::set<std::string> Tags(const Json& node) {
  std::set<std::string> tags;
  for (const Json& tag : node.value("tags", Json::array())) tags.insert(tag.get<std::string>());
  return tags;
}

std::set<std::string> EditTags(const UpdateFlags& flags, std::set<std::string> tags) {
  if (flags.clear_tags) tags.clear();
  for (const std::string& tag : ParseList(flags.add_tags)) tags.insert(tag);
  for (const std::string& tag : ParseList(flags.remove_tags)) tags.erase(tag);
  return tags;
}

Result<Json> EditMetadata(const UpdateFlags& flags, const Json& before) {
  if (flags.metadata_from_file.empty())
    return Edit(before, flags.clear_metadata, flags.update_metadata, flags.remove_metadata);
  TORUS_ASSIGN_OR_RETURN(const auto files, ParseMetadataFiles(flags.metadata_from_file));
  return Json(files);  // replaces all metadata, as gcloud's flag does
}

Result<int> Run(const UpdateFlags& flags) {
  TORUS_ASSIGN_OR_RETURN(const Client client, MakeClient(flags.common));
  TORUS_ASSIGN_OR_RETURN(const Json node, client.Get(flags.name.ToString()));
  TORUS_ASSIGN_OR_RETURN(const Change change, ChangeFromFlags(flags, node));
  std::string mask;
  for (const std::string& path : change.mask) mask += (mask.empty() ? "" : ",") + path;
  TORUS_ASSIGN_OR_RETURN(const Json operation,
                         client.Patch(flags.name.ToString(), change.node, {{"updateMask", mask}}));
  return FinishOperation(client, flags, operation, kVerb);
}

void AddUpdateFlags(CLI::App& command, UpdateFlags& flags) {
  command.add_option("--description", flags.description, "A text about it")->type_name("TEXT");
  command.add_flag("--internal-ips", flags.internal_ips, "Give it no external address");
  AddRepeated(command, "--update-labels", flags.update_labels, "Labels to add or change")
      ->type_name("KEY=VALUE,...");
  auto* clear_labels = command.add_flag("--clear-labels", flags.clear_labels, "Remove all labels");
  command.add_option("--remove-labels", flags.remove_labels, "Labels to remove")
      ->type_name("KEY,...")
      ->excludes(clear_labels);
  command.add_option("--add-tags", flags.add_tags, "Tags to add")->type_name("TAG,...");
  auto* clear_tags = command.add_flag("--clear-tags", flags.clear_tags, "Remove all tags");
  command.add_option("--remove-tags", flags.remove_tags, "Tags to remove")
      ->type_name("TAG,...")
      ->excludes(clear_tags);
  auto* update =
      AddRepeated(command, "--update-metadata", flags.update_metadata, "Metadata to add or change")
          ->type_name("KEY=VALUE,...");
  auto* clear = command.add_flag("--clear-metadata", flags.clear_metadata, "Remove all metadata");
  auto* remove =
      command.add_option("--remove-metadata", flags.remove_metadata, "Metadata to remove")
          ->type_name("KEY,...")
          ->excludes(clear);
  AddRepeated(command, "--metadata-from-file", flags.metadata_from_file,
              "Replace all metadata by what these files hold")
      ->type_name("KEY=FILE,...")
      ->excludes(update)
      ->excludes(clear)
      ->excludes(remove);
}

}  // namespace

Result<Change> ChangeFromFlags(const UpdateFlags& flags, const Json& node) {
  const Json object = Json::object();
  Change change;
  if (flags.description) Set(change, node, "description", *flags.description, "");
  if (flags.internal_ips) {
    change.node["networkConfig"] = node.value("networkConfig", object);
    change.node["networkConfig"]["enableExternalIps"] = false;
    change.mask.push_back("network_config.enable_external_ips");
  }
  TORUS_ASSIGN_OR_RETURN(Json labels, Edit(node.value("labels", object), flags.clear_labels,
                                           flags.update_labels, flags.remove_labels));
  Set(change, node, "labels", std::move(labels), object);
  const std::set<std::string> tags = Tags(node);
  Set(change, Json{{"tags", tags}}, "tags", EditTags(flags, tags), Json::array());
  TORUS_ASSIGN_OR_RETURN(Json metadata, EditMetadata(flags, node.value("metadata", object)));
  Set(change, node, "metadata", std::move(metadata), object);
  if (change.mask.empty())
    return InvalidArgument("nothing would change; give at least one field a new value");
  return change;
}

void AddTpuVmUpdate(CLI::App& parent, Invocation& invocation) {
  auto flags = std::make_shared<UpdateFlags>();
  CLI::App* command =
      AddCommand(parent, "update", "Change a TPU VM's description, labels, tags or metadata",
                 "  torus tpu-vm update my-tpu --zone=us-central1-a --update-labels=team=vision\n"
                 "  torus tpu-vm update my-tpu --zone=us-central1-a --remove-tags=old");
  AddNodeFlags(*command, *flags);
  AddAsyncFlag(*command, *flags);
  AddUpdateFlags(*command, *flags);
  RunAfterParse(*command, invocation, flags, Run);
}

}  // namespace torus::cli
