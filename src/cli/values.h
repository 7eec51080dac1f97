// Flag values as gcloud writes them: lists, maps, files of metadata, names of resources.
//
// Pure but for ParseMetadataFiles. Errors are INVALID_ARGUMENT unless said otherwise. Thread-safe.
#ifndef TORUS_CLI_VALUES_H_
#define TORUS_CLI_VALUES_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace torus::cli {

// "a,b" -> a, b. "^:^a,b:c" splits at ":" instead, as gcloud's escape does.
std::vector<std::string> ParseList(std::string_view text);

// Each of `values` is "K=V,K2=V2"; of a repeated key the last wins, as in gcloud 528.
Result<std::map<std::string, std::string>> ParseMap(const std::vector<std::string>& values);

// Each of `values` is "K=PATH,…"; the map holds the files' contents. NOT_FOUND names the file.
Result<std::map<std::string, std::string>> ParseMetadataFiles(
    const std::vector<std::string>& values);

// Where a node is: from its bare name and the flags, or its full name
// "projects/P/locations/Z/nodes/N", which wins over them.
struct NodeName {
  std::string project, zone, node;

  std::string ToString() const;  // the full name
  std::string Parent() const;    // "projects/P/locations/Z"
};
Result<NodeName> ParseNodeName(std::string_view text, std::string_view project,
                               std::string_view zone);

// Which workers "0", "1,4", "1-3" or "all" are, of `count`; in order, each once.
Result<std::vector<int>> ParseWorkers(std::string_view text, int count);

// "USER@HOST" -> USER, HOST; the user is empty where there is none.
std::pair<std::string, std::string> SplitUser(std::string_view text);

// The part after the last slash.
std::string Basename(std::string_view name);

}  // namespace torus::cli

#endif  // TORUS_CLI_VALUES_H_
