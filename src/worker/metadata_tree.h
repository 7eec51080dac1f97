// What a VM's metadata server answers: Compute Engine's tree of metadata, made from the VM's spec.
//
// A directory lists its children; a leaf is text. `?recursive=true` gives a directory as JSON, its
// names in camelCase but for the keys of attributes; `?alt=text|json` chooses the other form.
//
// Pure. Thread-safety: values.
#ifndef TORUS_WORKER_METADATA_TREE_H_
#define TORUS_WORKER_METADATA_TREE_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "worker.pb.h"

namespace torus::worker {

struct MetadataNode {
  enum class Kind { kLeaf, kDirectory, kList };

  static MetadataNode Leaf(std::string text);                       // a JSON string, too
  static MetadataNode Leaf(std::string text, nlohmann::json json);  // with another JSON form

  Kind kind = Kind::kDirectory;
  std::string text;                              // of a leaf
  nlohmann::json json;                           // of a leaf; null: the text, as a string
  std::map<std::string, MetadataNode> children;  // of a directory; a list's are "0", "1" …
  bool verbatim = false;                         // the children's names are the user's
  bool hidden = false;                           // only by its own path: tokens
};

// The tree below /computeMetadata/v1/, without guest attributes, and the TPU's API (tpu_api.h).
MetadataNode MetadataTree(const VmSpec& vm, int64_t memory_limit);

struct MetadataRequest {
  std::string path;                          // decoded, below /computeMetadata/v1/
  std::map<std::string, std::string> query;  // decoded
  bool Flag(const std::string& name) const;  // "true", any case
};

// Splits a request's target. NOT a metadata path (another prefix): `path` is the whole, with its
// leading slash.
MetadataRequest ParseTarget(std::string_view target);

struct MetadataAnswer {
  int status = 200;
  std::string content_type = "application/text";
  std::string body;
  std::string location;  // of a redirect
};

MetadataAnswer Answer(const MetadataNode& tree, const MetadataRequest& request);

}  // namespace torus::worker

#endif  // TORUS_WORKER_METADATA_TREE_H_
