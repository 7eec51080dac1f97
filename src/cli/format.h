// How a command prints what the service said: json, yaml, a table or bare values.
//
// The subset of gcloud's --format that tutorials and scripts use. A column is a key, a transform
// and a label, as gcloud writes them: `name.basename()`, `name.segment(-3):label=ZONE`,
// `networkEndpoints[0].ipAddress`. Pure; thread-safe.
#ifndef TORUS_CLI_FORMAT_H_
#define TORUS_CLI_FORMAT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace torus::cli {

// JSON that keeps the order of the fields as the service sent them.
using Json = nlohmann::ordered_json;

struct Column {
  std::vector<std::string> path;  // "networkEndpoints", "0", "ipAddress"
  enum class Transform { kNone, kBasename, kSegment } transform = Transform::kNone;
  int segment = 0;  // which part between slashes; negative counts from the end
  std::string label;
};

class Format {
 public:
  enum class Kind { kDefault, kJson, kYaml, kTable, kValue, kNone };

  // Reads the text of --format; empty is kDefault. INVALID_ARGUMENT says what is valid.
  static Result<Format> Parse(std::string_view text);

  Kind kind() const { return kind_; }

  // The text of one resource. `columns` is the command's own table, for a bare "table".
  std::string Print(const Json& resource, std::string_view columns) const;
  // The text of a list of them: a table unless the format says otherwise.
  std::string PrintList(const Json& resources, std::string_view columns) const;

 private:
  Kind kind_ = Kind::kDefault;
  std::vector<Column> columns_;  // of table(…) and value(…)
};

// Reads "name.basename(), state:label=STATUS". INVALID_ARGUMENT names the column.
Result<std::vector<Column>> ParseColumns(std::string_view text);

// One cell: empty where the resource has no such field.
std::string Cell(const Json& resource, const Column& column);

// Columns two spaces apart, each as wide as its widest cell in characters; no trailing blanks.
std::string PrintTable(const Json& resources, const std::vector<Column>& columns);

// Block-style YAML, quoted so that it reads back as the same types.
std::string PrintYaml(const Json& value);

}  // namespace torus::cli

#endif  // TORUS_CLI_FORMAT_H_
