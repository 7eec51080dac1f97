// Resource names: "projects/P/locations/Z/nodes/N" and their parts, as Google's APIs write them.
// Pure. Thread-safety: values.
#ifndef TORUS_SERVICE_MODEL_NAMES_H_
#define TORUS_SERVICE_MODEL_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace torus::model {

// The place that holds a resource: a project and a zone. Zone "-" stands for all, in lists only.
struct Location {
  std::string project;
  std::string zone;

  std::string name() const { return "projects/" + project + "/locations/" + zone; }
  bool all_zones() const { return zone == "-"; }
  // What the names of all its resources of a collection begin with.
  std::string prefix(std::string_view collection) const;
};

// A resource under a location: collection "nodes", id "n1".
struct ResourceName {
  Location location;
  std::string collection;
  std::string id;

  std::string name() const { return location.name() + "/" + collection + "/" + id; }
};

// Each parse answers INVALID_ARGUMENT that shows the name and the form that is wanted.
Result<std::string> ParseProject(std::string_view name);  // "projects/P" -> "P"
Result<Location> ParseLocation(std::string_view name);    // "projects/P/locations/Z"
// "projects/P/locations/Z/<collection>/<id>"
Result<ResourceName> ParseResource(std::string_view name, std::string_view collection);

// 1 to 63 lowercase letters, digits and hyphens, a letter first and no hyphen last.
Status CheckNodeId(std::string_view id);
// A key of `labels`, and its value: RFC 1035 as Google's APIs bound it (63 characters each).
Status CheckLabel(std::string_view key, std::string_view value);

// The project's number as the metadata server and Compute show it: 12 digits, derived from its id.
int64_t ProjectNumber(std::string_view project);

}  // namespace torus::model

#endif  // TORUS_SERVICE_MODEL_NAMES_H_
