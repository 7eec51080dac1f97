#include "service/model/node.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>

#include "service/model/operation.h"

namespace torus::model {
namespace {

using Phase = Observation::Phase;

constexpr int64_t kTrySeconds = 600;  // how long a create or start that fails in passing is retried

struct Rule {
  std::string_view verb;
  std::vector<NodeState> legal_in;
  NodeState moves_to;  // NODE_STATE_UNSPECIFIED: stays
};

const std::vector<Rule>& Rules() {
  static const auto* const rules =
      new std::vector<Rule>{{"update", {READY, STOPPED}, NODE_STATE_UNSPECIFIED},
                            {"stop", {READY, REPAIRING, STARTING}, STOPPING},
                            {"start", {STOPPED}, STARTING},
                            {"delete",
                             {CREATING, READY, RESTARTING, REIMAGING, REPAIRING, STOPPED, STOPPING,
                              STARTING, PREEMPTED, TERMINATED},
                             DELETING}};
  return *rules;
}

const Rule& RuleOf(std::string_view verb) { return *std::ranges::find(Rules(), verb, &Rule::verb); }

// One step of AdvanceNode: the node, its operations and what was seen.
class Step {
 public:
  Step(const Observation& seen, const google::protobuf::Timestamp& now, NodeRecord* node,
       std::span<OperationRecord> operations)
      : seen_(seen), now_(now), node_(*node), operations_(operations) {}

  Advance Run() {
    TakeLists(seen_.guest_attributes, false, &Host::mutable_guest_attributes);
    TakeLists(seen_.symptoms, true, &Host::mutable_symptoms);
    HonourCancel();
    ShowDetail();
    switch (node_.state()) {
      case CREATING:
      case STARTING:
      case RESTARTING:
      case REIMAGING:
      case REPAIRING:
        ComeUp();
        break;
      case READY:
        StayUp();
        break;
      case STOPPING:
        if (seen_.phase == Phase::kStopped) {
          MoveTo(STOPPED);
          FinishAll();
        }
        break;
      case STOPPED:
        FinishAll();  // what was asked of a stopped node is in its record already
        break;
      case DELETING:
        if (seen_.phase == Phase::kDeleted) {
          FinishAll();
          result_.erase = true;
        }
        break;
      default:
        break;
    }
    return result_;
  }

 private:
  void ComeUp() {
    // What ran before a stop says nothing of the start after it: the generation tells them apart.
    if (seen_.phase == Phase::kRunning && seen_.generation >= node_.generation()) {
      MoveTo(READY);
      node_.clear_health_description();
      FinishReached();
    } else if (seen_.phase == Phase::kFailed && (seen_.permanent || HasTriedLongEnough())) {
      GiveUp(seen_.error);
    }
  }

  bool HasTriedLongEnough() const {
    return std::ranges::any_of(operations_, [this](const OperationRecord& operation) {
      return (operation.verb() == "create" || operation.verb() == "start") &&
             now_.seconds() - operation.create_time().seconds() > kTrySeconds;
    });
  }

  void StayUp() {
    if (seen_.phase == Phase::kRunning) {
      FinishReached();
    } else if (seen_.phase == Phase::kFailed || seen_.phase == Phase::kWorking) {
      MoveTo(REPAIRING);
      node_.set_health_description(seen_.phase == Phase::kFailed ? seen_.error.message()
                                                                 : seen_.detail);
    }
  }

  // A create or a start that cannot succeed: undo it first, then report the error, so that nothing
  // is left behind when the operation says that it is over.
  void GiveUp(const Status& error) {
    if (node_.state() != CREATING && node_.state() != STARTING) {
      if (node_.health_description() == error.message()) return;
      node_.set_health_description(error.message());
      result_.changed = true;
      return;
    }
    const std::string_view verb = node_.state() == CREATING ? "create" : "start";
    for (auto& operation : operations_)
      if (operation.verb() == verb) SetError(error, &operation);
    MoveTo(node_.state() == CREATING ? DELETING : STOPPING);
    node_.set_generation(node_.generation() + 1);
  }

  void HonourCancel() {
    if (node_.state() != CREATING) return;
    for (const auto& operation : operations_) {
      if (operation.verb() != "create" || !operation.cancel_requested()) continue;
      GiveUp(Status(Code::kCancelled, "The operation was cancelled; the node was removed."));
      return;
    }
  }

  void ShowDetail() {
    if (seen_.phase != Phase::kWorking && seen_.phase != Phase::kFailed) return;
    const std::string& detail =
        seen_.phase == Phase::kFailed ? seen_.error.message() : seen_.detail;
    if (detail.empty()) return;
    for (auto& operation : operations_) {
      // One that is being undone has its error; what the undoing says is not its news.
      if (operation.status_detail() == detail || operation.error_code() != 0) continue;
      operation.set_status_detail(detail);
      result_.changed = true;
    }
  }

  // Puts each host's list into its record, where it is another one.
  template <typename Value>
  void TakeLists(const std::vector<std::vector<Value>>& lists, bool empty_is_news,
                 google::protobuf::RepeatedPtrField<Value>* (Host::*list_of)()) {
    const int known = std::min(node_.hosts_size(), static_cast<int>(lists.size()));
    for (int i = 0; i < known; ++i) {
      auto& present = *(node_.mutable_hosts(i)->*list_of)();
      const bool is_news = !lists[i].empty() || empty_is_news;
      const auto same = google::protobuf::util::MessageDifferencer::Equals;
      if (!is_news || std::ranges::equal(present, lists[i], same)) continue;
      present.Assign(lists[i].begin(), lists[i].end());
      result_.changed = true;
    }
  }

  void MoveTo(NodeState state) {
    node_.set_state(state);
    result_.changed = true;
  }

  void FinishReached() {
    for (auto& operation : operations_)
      if (operation.generation() <= seen_.generation) Finish(&operation);
  }

  void FinishAll() {
    for (auto& operation : operations_) Finish(&operation);
  }

  void Finish(OperationRecord* operation) {
    if (operation->done()) return;
    if (node_.state() == DELETING && operation->verb() != "delete" && operation->error_code() == 0)
      SetError(Status(Code::kAborted, "The node was deleted before the operation was done."),
               operation);
    if (node_.state() == STOPPED && operation->verb() == "start" && operation->error_code() == 0)
      SetError(Status(Code::kAborted, "The node was stopped before the operation was done."),
               operation);
    auto& names = *node_.mutable_operations();
    names.erase(std::remove(names.begin(), names.end(), operation->name()), names.end());
    FinishOperation(node_, now_, operation);
    result_.changed = true;
  }

  const Observation& seen_;
  const google::protobuf::Timestamp& now_;
  NodeRecord& node_;
  std::span<OperationRecord> operations_;
  Advance result_;
};

}  // namespace

Desired DesiredOf(NodeState state) {
  switch (state) {
    case STOPPED:
    case STOPPING:
    case PREEMPTED:
    case TERMINATED:
      return Desired::kStop;
    case DELETING:
      return Desired::kDelete;
    default:
      return Desired::kRun;
  }
}

Status CheckVerb(std::string_view verb, NodeState state) {
  if (std::ranges::find(RuleOf(verb).legal_in, state) != RuleOf(verb).legal_in.end()) return {};
  // Upstream's text and code, as users report it.
  return InvalidArgument(
      "Cloud TPU received a bad request. {} is not supported while in state {}. (What is under "
      "way: "
      "`torus operations list`.)",
      verb, NodeState_Name(state));
}

void BeginVerb(std::string_view verb, NodeRecord* node) {
  if (const NodeState state = RuleOf(verb).moves_to; state != NODE_STATE_UNSPECIFIED)
    node->set_state(state);
  node->set_generation(node->generation() + 1);
}

Advance AdvanceNode(const Observation& seen, const google::protobuf::Timestamp& now,
                    NodeRecord* node, std::span<OperationRecord> operations) {
  return Step(seen, now, node, operations).Run();
}

}  // namespace torus::model
