// The Cloud TPU API, version 1, as TensorFlow's clients read it inside a VM to learn what a TPU's
// name stands for: the discovery document, and the VM's own node. They are told where by
// TPU_API_DISCOVERY_URL (service/backend/local/image_recipe.cc).
//
// Source: PyPI's cloud-tpu-client 0.10, which asks for no other method. Pure.
#ifndef TORUS_WORKER_TPU_API_H_
#define TORUS_WORKER_TPU_API_H_

#include "worker/metadata_tree.h"

namespace torus::worker {

// What is below "/": discovery/tpu and v1/projects/P/locations/Z/nodes/N.
MetadataNode TpuApi(const VmSpec& vm);

// The answer to any other path below /v1/: 404, as Google's API forms it.
MetadataAnswer NoSuchNode(const MetadataNode& api, std::string_view path);

}  // namespace torus::worker

#endif  // TORUS_WORKER_TPU_API_H_
