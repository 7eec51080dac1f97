// What a request says of a node, checked: its type, version, labels, metadata and field mask.
// Every error is INVALID_ARGUMENT, in upstream's words where it has them.
// Pure. Thread-safety: free functions.
#ifndef TORUS_SERVICE_API_TPU_VALIDATE_H_
#define TORUS_SERVICE_API_TPU_VALIDATE_H_

#include "base/status.h"
#include "google/cloud/tpu/v2/cloud_tpu.pb.h"
#include "hardware/catalogue.h"
#include "record.pb.h"

namespace torus::api::tpu {

namespace v2 = google::cloud::tpu::v2;

// The accelerator type that a node asks for, by name or by generation and topology, if its zone
// offers it.
Result<const hardware::AcceleratorType*> ChooseType(const hardware::Catalogue& catalogue,
                                                    const hardware::Zone& zone,
                                                    const v2::Node& node);

// Everything else of a node to be created.
Status CheckNode(const hardware::Catalogue& catalogue, const hardware::Zone& zone,
                 const v2::Node& node);

// Takes over the fields that the mask names: description, labels, metadata, tags.
Status ApplyUpdate(const v2::UpdateNodeRequest& request, model::NodeRecord* node);

}  // namespace torus::api::tpu

#endif  // TORUS_SERVICE_API_TPU_VALIDATE_H_
