// google.longrunning.Operations, as the Cloud TPU API mixes it in.
// Errors: NOT_FOUND; INVALID_ARGUMENT; FAILED_PRECONDITION for deleting one that is not done.
#ifndef TORUS_SERVICE_API_TPU_OPERATIONS_H_
#define TORUS_SERVICE_API_TPU_OPERATIONS_H_

#include "google/longrunning/operations.pb.h"
#include "google/protobuf/empty.pb.h"
#include "service/api/context.h"
#include "service/store/store.h"

namespace torus::api::tpu {

Result<google::longrunning::ListOperationsResponse> ListOperations(
    const Context& context, store::View& view,
    const google::longrunning::ListOperationsRequest& request);
Result<google::longrunning::Operation> GetOperation(
    const Context& context, store::View& view,
    const google::longrunning::GetOperationRequest& request);
Result<google::protobuf::Empty> DeleteOperation(
    store::Transaction& transaction, const google::longrunning::DeleteOperationRequest& request);
// Asks a create to be undone; any other operation runs to its end. Done already: no effect.
Result<google::protobuf::Empty> CancelOperation(
    store::Transaction& transaction, const google::longrunning::CancelOperationRequest& request);

}  // namespace torus::api::tpu

#endif  // TORUS_SERVICE_API_TPU_OPERATIONS_H_
