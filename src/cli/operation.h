// Long-running operations: waiting for one, with what it does shown on stderr meanwhile.
//
// Thread-safety: one wait at a time in a process, since Ctrl-C belongs to it.
#ifndef TORUS_CLI_OPERATION_H_
#define TORUS_CLI_OPERATION_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/client.h"
#include "cli/format.h"

namespace torus::cli {

// The result of a finished operation: its response (an empty object if it has none) or its error.
Result<Json> OperationResult(const Json& operation);

// "metadata.statusDetail", or nothing.
std::string StatusDetail(const Json& operation);

// How to look at an operation later: the command to type.
std::string DescribeCommand(const Json& operation);

// Polls until `operation` is done and returns its result. Writes `doing` ("Creating my-tpu") and
// the operation's own words to stderr: one line that is rewritten on a terminal, a line for each
// change elsewhere, but for the reason of a failure, which is the caller's to tell. Ctrl-C leaves
// the operation running and returns CANCELLED, which says how to look at it. An UNAVAILABLE service
// is asked again for a while, since it may be restarting.
Result<Json> WaitForOperation(const Client& client, Json operation, std::string_view doing);

}  // namespace torus::cli

#endif  // TORUS_CLI_OPERATION_H_
