// Between google.cloud.tpu.v2's messages and the model. Pure. Thread-safety: free functions.
#ifndef TORUS_SERVICE_API_TPU_TRANSLATE_H_
#define TORUS_SERVICE_API_TPU_TRANSLATE_H_

#include "google/cloud/tpu/v2/cloud_tpu.pb.h"
#include "google/longrunning/operations.pb.h"
#include "hardware/catalogue.h"
#include "record.pb.h"

namespace torus::api::tpu {

namespace v2 = google::cloud::tpu::v2;

// The node as the API shows it.
v2::Node ToWire(const model::NodeRecord& record, const hardware::Catalogue& catalogue);

// The operation as the API shows it; its response is a v2 node, or empty for a delete.
google::longrunning::Operation ToWire(const model::OperationRecord& record,
                                      const hardware::Catalogue& catalogue);

// Copies what a user sets with a create. Knows nothing of what is right: validate.cc checks.
void FromWire(const v2::Node& node, model::NodeRecord* record);

// The enum of a generation's api_name ("V5LITE_POD").
v2::AcceleratorConfig::Type ToWire(const hardware::Generation& generation);

}  // namespace torus::api::tpu

#endif  // TORUS_SERVICE_API_TPU_TRANSLATE_H_
