#include "service/api/tpu/validate.h"

#include <algorithm>

#include "service/model/metadata.h"
#include "service/model/names.h"

namespace torus::api::tpu {
namespace {

constexpr int kMaxLabels = 64;
constexpr size_t kMaxDescription = 512;

Status CheckDescription(std::string_view description) {
  if (description.size() <= kMaxDescription) return {};
  return InvalidArgument("The description has {} bytes; at most {} are allowed.",
                         description.size(), kMaxDescription);
}

template <typename Map>
Status CheckLabels(const Map& labels) {
  if (labels.size() > kMaxLabels)
    return InvalidArgument("{} labels; at most {} are allowed.", labels.size(), kMaxLabels);
  for (const auto& [key, value] : labels) TORUS_RETURN_IF_ERROR(model::CheckLabel(key, value));
  return {};
}

template <typename Tags>
Status CheckTags(const Tags& tags) {
  for (const std::string& tag : tags)
    if (!model::CheckNodeId(tag).ok())
      return InvalidArgument(
          "Invalid network tag \"{}\": 1 to 63 lowercase letters, digits or hyphens, a letter "
          "first and no hyphen last.",
          tag);
  return {};
}

Error NoSuchConfiguration(std::string_view type, const hardware::Zone& zone) {
  return InvalidArgument(
      "Cloud TPU received a bad request. The requested accelerator configuration for accelerator "
      "type, \"{}\", could not be found in the zonal accelerator configurations for \"{}\".",
      type, zone.name);
}

// The type of a generation and a topology, as `accelerator_config` gives them.
Result<const hardware::AcceleratorType*> TypeOfConfig(const hardware::Catalogue& catalogue,
                                                      const hardware::Zone& zone,
                                                      const v2::AcceleratorConfig& config) {
  const std::string& known = v2::AcceleratorConfig::Type_Name(config.type());
  const std::string name = known.empty() ? std::to_string(config.type()) : known;
  const hardware::Generation* generation = catalogue.FindGeneration(name);
  if (config.type() == v2::AcceleratorConfig::TYPE_UNSPECIFIED || generation == nullptr)
    return InvalidArgument(
        "Cloud TPU received a bad request. accelerator_config.type \"{}\" is not offered. "
        "The types that are: `torus accelerator-types list`.",
        name);
  TORUS_ASSIGN_OR_RETURN(const auto topology, hardware::ParseTopology(config.topology()));
  const auto* type = catalogue.FindByTopology(*generation, topology);
  if (type == nullptr) return NoSuchConfiguration(name + " " + config.topology(), zone);
  return type;
}

constexpr std::array<std::string_view, 4> kMutable = {"description", "labels", "metadata", "tags"};

Status ApplyField(std::string_view path, const v2::Node& from, model::NodeRecord* node) {
  if (path == "description") {
    TORUS_RETURN_IF_ERROR(CheckDescription(from.description()));
    node->set_description(from.description());
  } else if (path == "labels") {
    TORUS_RETURN_IF_ERROR(CheckLabels(from.labels()));
    *node->mutable_labels() = from.labels();
  } else if (path == "metadata") {
    TORUS_RETURN_IF_ERROR(model::CheckMetadata(from.metadata()));
    *node->mutable_metadata() = from.metadata();
  } else {
    TORUS_RETURN_IF_ERROR(CheckTags(from.tags()));
    *node->mutable_tags() = from.tags();
  }
  return {};
}

}  // namespace

Result<const hardware::AcceleratorType*> ChooseType(const hardware::Catalogue& catalogue,
                                                    const hardware::Zone& zone,
                                                    const v2::Node& node) {
  const bool by_config = node.has_accelerator_config();
  if (by_config && !node.accelerator_type().empty())
    return InvalidArgument(
        "Cloud TPU received a bad request. Give accelerator_type or accelerator_config, not both.");
  if (!by_config && node.accelerator_type().empty())
    return InvalidArgument(
        "Cloud TPU received a bad request. An accelerator type is required, such as \"v2-8\".");
  const hardware::AcceleratorType* type = catalogue.FindAcceleratorType(node.accelerator_type());
  if (by_config) {
    TORUS_ASSIGN_OR_RETURN(type, TypeOfConfig(catalogue, zone, node.accelerator_config()));
  }
  if (type == nullptr || !catalogue.Offers(zone, *type))
    return NoSuchConfiguration(type == nullptr ? node.accelerator_type() : type->name, zone);
  return type;
}

Status CheckNode(const hardware::Catalogue& catalogue, const hardware::Zone& zone,
                 const v2::Node& node) {
  if (node.runtime_version().empty())
    return InvalidArgument(
        "Cloud TPU received a bad request. A runtime version is required, such as "
        "\"tpu-ubuntu2204-base\".");
  if (catalogue.FindRuntimeVersion(node.runtime_version()) == nullptr)
    return InvalidArgument(
        "Cloud TPU received a bad request. The runtime version \"{}\" could not be found in "
        "\"{}\". "
        "Those that exist here: `torus versions list`.",
        node.runtime_version(), zone.name);
  TORUS_RETURN_IF_ERROR(CheckDescription(node.description()));
  TORUS_RETURN_IF_ERROR(CheckLabels(node.labels()));
  TORUS_RETURN_IF_ERROR(model::CheckMetadata(node.metadata()));
  return CheckTags(node.tags());
}

Status ApplyUpdate(const v2::UpdateNodeRequest& request, model::NodeRecord* node) {
  const auto& paths = request.update_mask().paths();
  if (paths.empty())
    return InvalidArgument(
        "Cloud TPU received a bad request. update_mask is required: name the fields to change, "
        "such as \"labels,metadata\".");
  for (const std::string& path : paths) {
    if (path == "*") {
      for (std::string_view field : kMutable)
        TORUS_RETURN_IF_ERROR(ApplyField(field, request.node(), node));
      continue;
    }
    if (std::ranges::find(kMutable, path) != kMutable.end()) {
      TORUS_RETURN_IF_ERROR(ApplyField(path, request.node(), node));
      continue;
    }
    const std::string field = path.substr(0, path.find('.'));
    const bool known = v2::Node::descriptor()->FindFieldByName(field) != nullptr;
    return InvalidArgument(
        "Cloud TPU received a bad request. update_mask path \"{}\" {}. Fields that can be updated: "
        "description, labels, metadata, tags.",
        path, known ? "cannot be updated" : "is not a field of a node");
  }
  return {};
}

}  // namespace torus::api::tpu
