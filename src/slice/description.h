// The slice's description: what the service and a worker tell libtpu.so (and, through the metadata
// server's `tpu-env` attribute, the frameworks) about the slice that a process runs on.
//
// Format: lines of `KEY: 'value'`, as upstream's `tpu-env` attribute has them, so one text serves
// both readers. Unknown keys are kept out and ignored: a newer worker may serve an older library.
// Keys upstream has: ACCELERATOR_TYPE, TOPOLOGY, NODE_ID, ZONE, WORKER_ID, CHIPS_PER_HOST_BOUNDS,
// HOST_BOUNDS, ... (seen in jax's cloud_tpu_cluster.py), and the last two by the names that
// PyTorch/XLA reads, TPU_CHIPS_PER_PROCESS_BOUNDS and TPU_PROCESS_BOUNDS. Keys of ours begin with
// TORUS_.
//
// Pure; shared by both halves; no dependency but base. Thread-safety: values.
#ifndef TORUS_SLICE_DESCRIPTION_H_
#define TORUS_SLICE_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace torus::slice {

// Where a TPU VM has the description; the variable names another file.
inline constexpr char kDescriptionPath[] = "/run/torus/slice";
inline constexpr char kDescriptionVariable[] = "TORUS_SLICE";

struct Description {
  std::string accelerator_type;  // "v2-8", a row of the catalogue
  std::string topology;          // chips along each axis, "2x2" or "2x2x1"; empty: the type's own
  std::string chips_per_host;    // the chips of a host along each axis, "2,2,1"; empty: not told
  std::string hosts;             // the hosts along each axis, "1,1,2"; empty: not told
  std::string node_id;           // the user's name of the node
  std::string node_uid;          // ours, unique for ever
  std::string zone;
  std::string runtime_version;
  int worker_id = 0;                          // this host's index in the slice, from 0
  std::vector<std::string> worker_addresses;  // one a host, in order; empty: one host
  int64_t memory_limit_bytes = 0;             // host memory the VM may use; 0: the host's own
};

// The text form of `description`, one line a key, ending in a newline.
std::string Format(const Description& description);

// Reads the text form. INVALID_ARGUMENT names the line and what it lacks.
Result<Description> Parse(std::string_view text);

}  // namespace torus::slice

#endif  // TORUS_SLICE_DESCRIPTION_H_
