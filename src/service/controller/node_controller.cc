#include "service/controller/node_controller.h"

#include <spdlog/spdlog.h>

#include "base/fault.h"

namespace torus::controller {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 4;
constexpr auto kResync = 30s;     // a look at a node that nobody woke us for
constexpr auto kNoNews = 500ms;   // after one that said nothing: a worker is dying, or hangs
constexpr auto kStoreRetry = 1s;  // after the store refused a write (a full disk, say)

// Reads what a reconcile needs, in one snapshot.
struct Inputs {
  model::NodeRecord node;
  model::ProjectRecord project;
};

Result<std::optional<Inputs>> Load(store::View& view, const std::string& name) {
  TORUS_ASSIGN_OR_RETURN(auto node, view.Find<model::NodeRecord>(name));
  if (!node) return std::nullopt;
  const std::string project_name = name.substr(0, name.find("/locations/"));
  TORUS_ASSIGN_OR_RETURN(auto project, view.Find<model::ProjectRecord>(project_name));
  return Inputs{*std::move(node), project.value_or(model::ProjectRecord())};
}

Result<std::vector<model::OperationRecord>> UnfinishedOperations(store::View& view,
                                                                 const model::NodeRecord& node) {
  std::vector<model::OperationRecord> operations;
  for (const std::string& name : node.operations()) {
    TORUS_ASSIGN_OR_RETURN(auto operation, view.Find<model::OperationRecord>(name));
    if (operation) operations.push_back(*std::move(operation));
  }
  return operations;
}

}  // namespace

NodeController::NodeController(store::Store& store, backend::Backend& backend, Now now)
    : store_(store),
      backend_(backend),
      now_(std::move(now)),
      queue_(kThreads, [this](const std::string& name) { return Reconcile(name); }) {
  backend_.set_wake([this](const std::string& name) { queue_.Add(name); });
  store_.set_on_commit([this](const store::Changes& changes) {
    for (const auto& name : changes.nodes) queue_.Add(name);
    for (const auto& project : changes.projects) WakeProject(project);
  });
  WakeProject("");
}

NodeController::~NodeController() {
  backend_.set_wake({});
  store_.set_on_commit({});
}

void NodeController::WakeProject(const std::string& project) {
  const std::string prefix = project.empty() ? "" : project + "/locations/";
  auto nodes = store_.Read([&](store::View& view) { return view.List<model::NodeRecord>(prefix); });
  if (!nodes) return spdlog::error("cannot read the nodes: {}", nodes.error().ToString());
  for (const auto& node : *nodes) queue_.Add(node.name());
}

std::optional<WorkQueue::Clock::duration> NodeController::Reconcile(const std::string& name) {
  auto inputs = store_.Read([&](store::View& view) { return Load(view, name); });
  if (!inputs) {
    spdlog::error("node {}: {}", name, inputs.error().ToString());
    return kStoreRetry;
  }
  if (!*inputs) return std::nullopt;
  const auto& [node, project] = **inputs;
  FaultPoint("controller.converge");
  const model::Observation seen = backend_.Converge(node, project);
  FaultPoint("controller.converged");
  if (const Status status = Advance(name, seen); !status.ok()) {
    spdlog::error("node {}: {}", name, status.ToString());
    return kStoreRetry;
  }
  return seen.phase == model::Observation::Phase::kUnknown ? kNoNews : kResync;
}

// Moves the record on in a transaction that reads it anew: what was seen is true of the world
// whatever a request has changed meanwhile, and a change wakes us again.
Status NodeController::Advance(const std::string& name, const model::Observation& seen) {
  const auto preview = store_.Read([&](store::View& view) -> Result<bool> {
    TORUS_ASSIGN_OR_RETURN(auto node, view.Find<model::NodeRecord>(name));
    if (!node) return false;
    TORUS_ASSIGN_OR_RETURN(auto operations, UnfinishedOperations(view, *node));
    const model::Advance step = model::AdvanceNode(seen, now_(), &*node, operations);
    return step.changed || step.erase;
  });
  if (!preview) return preview.error();
  if (!*preview) return {};  // most often nothing moves: no need to trouble the writer
  std::string news;          // told once it is durable
  const Status written = store_.WriteAndWait([&](store::Transaction& transaction) -> Status {
    news.clear();
    TORUS_ASSIGN_OR_RETURN(auto node, transaction.Find<model::NodeRecord>(name));
    if (!node) return {};
    TORUS_ASSIGN_OR_RETURN(auto operations, UnfinishedOperations(transaction, *node));
    const model::NodeState before = node->state();
    const model::Advance step = model::AdvanceNode(seen, now_(), &*node, operations);
    for (const auto& operation : operations) TORUS_RETURN_IF_ERROR(transaction.Put(operation));
    if (!step.erase) {
      if (node->state() != before) news = model::NodeState_Name(node->state());
      return transaction.Put(*node);
    }
    for (const auto& host : node->hosts()) TORUS_RETURN_IF_ERROR(transaction.FreeSlot(host.slot()));
    news = "gone";
    return transaction.Erase<model::NodeRecord>(name);
  });
  if (written.ok() && !news.empty()) spdlog::info("node {} is {}", name, news);
  return written;
}

}  // namespace torus::controller
