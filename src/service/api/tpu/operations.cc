#include "service/api/tpu/operations.h"

#include "service/api/paging.h"
#include "service/api/tpu/nodes.h"
#include "service/api/tpu/translate.h"
#include "service/model/names.h"

namespace torus::api::tpu {
namespace {

namespace longrunning = google::longrunning;

Result<model::OperationRecord> FindOperation(store::View& view, std::string_view name) {
  TORUS_RETURN_IF_ERROR(model::ParseResource(name, "operations"));
  TORUS_ASSIGN_OR_RETURN(auto operation, view.Find<model::OperationRecord>(name));
  if (!operation) return NotFound("Operation '{}' was not found", name);
  return *std::move(operation);
}

}  // namespace

Result<longrunning::ListOperationsResponse> ListOperations(
    const Context& context, store::View& view, const longrunning::ListOperationsRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto location, model::ParseLocation(request.name()));
  if (!location.all_zones()) TORUS_RETURN_IF_ERROR(FindZone(context, location));
  if (!request.filter().empty())
    return InvalidArgument("filter is not supported; list all and filter the answer.");
  TORUS_ASSIGN_OR_RETURN(const Page page, ParsePage(request.page_size(), request.page_token()));
  longrunning::ListOperationsResponse response;
  const auto take = [&](const model::OperationRecord& operation) {
    if (response.operations_size() < page.size)
      *response.add_operations() = ToWire(operation, *context.catalogue);
    else
      response.set_next_page_token(PageToken(response.operations().rbegin()->name()));
  };
  TORUS_RETURN_IF_ERROR(view.ForEach<model::OperationRecord>(location.prefix("operations"),
                                                             page.after, page.size + 1, take));
  return response;
}

Result<longrunning::Operation> GetOperation(const Context& context, store::View& view,
                                            const longrunning::GetOperationRequest& request) {
  TORUS_ASSIGN_OR_RETURN(auto operation, FindOperation(view, request.name()));
  if (operation.has_result()) {
    // The node's metadata is kept in one place, its own record.
    TORUS_ASSIGN_OR_RETURN(const auto node, view.Find<model::NodeRecord>(operation.target()));
    if (node && node->uid() == operation.result().uid())
      *operation.mutable_result()->mutable_metadata() = node->metadata();
  }
  return ToWire(operation, *context.catalogue);
}

Result<google::protobuf::Empty> DeleteOperation(
    store::Transaction& transaction, const longrunning::DeleteOperationRequest& request) {
  TORUS_ASSIGN_OR_RETURN(const auto operation, FindOperation(transaction, request.name()));
  if (!operation.done())
    return FailedPrecondition("Operation '{}' is not done; cancel it or wait for its end.",
                              request.name());
  TORUS_RETURN_IF_ERROR(transaction.Erase<model::OperationRecord>(request.name()));
  return google::protobuf::Empty();
}

Result<google::protobuf::Empty> CancelOperation(
    store::Transaction& transaction, const longrunning::CancelOperationRequest& request) {
  TORUS_ASSIGN_OR_RETURN(auto operation, FindOperation(transaction, request.name()));
  if (operation.done()) return google::protobuf::Empty();
  operation.set_cancel_requested(true);
  TORUS_RETURN_IF_ERROR(transaction.Put(operation));
  // Writing the node anew wakes its controller, which honours the request.
  TORUS_ASSIGN_OR_RETURN(const auto node, transaction.Find<model::NodeRecord>(operation.target()));
  if (node) TORUS_RETURN_IF_ERROR(transaction.Put(*node));
  return google::protobuf::Empty();
}

}  // namespace torus::api::tpu
