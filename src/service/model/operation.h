// Long-running operations: one verb on one node, from the answer that promises it to its end.
// Pure: the clock is an argument. Thread-safety: free functions over values.
#ifndef TORUS_SERVICE_MODEL_OPERATION_H_
#define TORUS_SERVICE_MODEL_OPERATION_H_

#include <string_view>

#include "base/status.h"
#include "google/protobuf/timestamp.pb.h"
#include "record.pb.h"

namespace torus::model {

// A new operation for `verb` on `node`, which gets its name. Its id is unique: "operation-" with
// the milliseconds of `now`, then random hex, as upstream's look.
OperationRecord BeginOperation(std::string_view verb, const google::protobuf::Timestamp& now,
                               NodeRecord* node);

// What the operation will end with, once its node is in order again.
void SetError(const Status& error, OperationRecord* operation);

// Marks it done: with the error set before, or with the node as it is now, less its metadata.
void FinishOperation(const NodeRecord& node, const google::protobuf::Timestamp& now,
                     OperationRecord* operation);

// 16 random hex digits, and a random positive number.
std::string NewUid();
int64_t NewId();

}  // namespace torus::model

#endif  // TORUS_SERVICE_MODEL_OPERATION_H_
