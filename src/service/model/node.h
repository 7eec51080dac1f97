// A node's life: which verb is legal in which state, and how a node moves as its backend reports.
//
//            create               stop                start
//   (none) ────────▶ CREATING    READY ────▶ STOPPING    STOPPED ────▶ STARTING
//                       │ up      ▲  │          │ down      ▲             │ up
//                       └────────▶┤  │ its VM   └───────────┘             └────▶ READY
//                              up │  ▼ is lost
//                               REPAIRING
//
//   delete: any state ────▶ DELETING ────▶ (none)
//   a create that cannot succeed: CREATING ────▶ DELETING; a start: STARTING ────▶ STOPPING
//
// Pure: the clock is an argument. Thread-safety: free functions over values.
#ifndef TORUS_SERVICE_MODEL_NODE_H_
#define TORUS_SERVICE_MODEL_NODE_H_

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "google/protobuf/timestamp.pb.h"
#include "record.pb.h"

namespace torus::model {

// What a node's state asks of its workers.
enum class Desired { kRun, kStop, kDelete };
Desired DesiredOf(NodeState state);

// What the backend sees of a node's VMs, all of them together.
struct Observation {
  enum class Phase {
    kUnknown,  // no news yet: the worker lives, or was just started, and has not spoken
    kWorking,  // under way; `detail` says with what
    kRunning,  // every VM answers
    kStopped,  // nothing runs; disks are kept
    kDeleted,  // nothing is left
    kFailed,   // `error` says why
  };
  Phase phase = Phase::kUnknown;
  int64_t generation = 0;  // the newest that every worker has wholly in effect
  std::string detail;
  Status error;
  bool permanent = false;                                // trying again cannot help
  std::vector<std::vector<Attribute>> guest_attributes;  // one list a host; empty: no news
  std::vector<std::vector<Symptom>> symptoms;            // one list a host: all of now
};

// INVALID_ARGUMENT in upstream's words if `verb` ("update", "stop", "start", "delete") is not legal
// in the node's state.
Status CheckVerb(std::string_view verb, NodeState state);

// Moves the node into the state that `verb` begins with, and raises its generation.
// Requires: CheckVerb(verb, node->state()) is OK.
void BeginVerb(std::string_view verb, NodeRecord* node);

struct Advance {
  bool changed = false;  // the node or one of its operations
  bool erase = false;    // the node is gone: delete its record
};

// Moves `node` on by what was seen, and its operations with it: those that are over are marked done
// and leave the node's list. `operations` are the node's unfinished ones.
Advance AdvanceNode(const Observation& seen, const google::protobuf::Timestamp& now,
                    NodeRecord* node, std::span<OperationRecord> operations);

}  // namespace torus::model

#endif  // TORUS_SERVICE_MODEL_NODE_H_
