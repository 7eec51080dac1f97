// The verbs of google.cloud.tpu.v2's nodes: validate, change the record, answer with an operation.
//
// Errors, in upstream's words: INVALID_ARGUMENT for what a request gets wrong or a state forbids,
// NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED for a zone that does not exist (upstream does not
// tell the two apart), RESOURCE_EXHAUSTED when addresses run out. Nothing is changed by a refusal.
//
// Thread-safety: as the transaction they are handed.
#ifndef TORUS_SERVICE_API_TPU_NODES_H_
#define TORUS_SERVICE_API_TPU_NODES_H_

#include "google/cloud/tpu/v2/cloud_tpu.pb.h"
#include "google/longrunning/operations.pb.h"
#include "service/api/context.h"
#include "service/model/names.h"
#include "service/store/store.h"

namespace torus::api::tpu {

namespace v2 = google::cloud::tpu::v2;
using google::longrunning::Operation;

Result<v2::ListNodesResponse> ListNodes(const Context& context, store::View& view,
                                        const v2::ListNodesRequest& request);
Result<v2::Node> GetNode(const Context& context, store::View& view,
                         const v2::GetNodeRequest& request);
Result<Operation> CreateNode(const Context& context, store::Transaction& transaction,
                             const v2::CreateNodeRequest& request);
Result<Operation> UpdateNode(const Context& context, store::Transaction& transaction,
                             const v2::UpdateNodeRequest& request);
// "stop", "start" or "delete".
Result<Operation> ChangeNode(const Context& context, store::Transaction& transaction,
                             std::string_view verb, std::string_view name);
Result<v2::GetGuestAttributesResponse> GetGuestAttributes(
    const Context& context, store::View& view, const v2::GetGuestAttributesRequest& request);

// The zone's row; PERMISSION_DENIED in upstream's words where there is none.
Result<const hardware::Zone*> FindZone(const Context& context, const model::Location& location);
// The record of the node that `name` names; INVALID_ARGUMENT or NOT_FOUND.
Result<model::NodeRecord> FindNode(store::View& view, std::string_view name);

}  // namespace torus::api::tpu

#endif  // TORUS_SERVICE_API_TPU_NODES_H_
