#include "service/backend/fake/fake_backend.h"

namespace torus::backend {

using Phase = model::Observation::Phase;

Status FakeBackend::Admit(const hardware::AcceleratorType&) const { return {}; }

Status FakeBackend::CheckLogin() const {
  return FailedPrecondition(
      "This service runs with --backend=fake: its nodes have no VM to log in to. For real TPU VMs "
      "run torus serve as root with --backend=local.");
}

// There is nothing to bring about, so everything is at once as it was asked to be.
model::Observation FakeBackend::Converge(const model::NodeRecord& node,
                                         const model::ProjectRecord&) {
  model::Observation seen{.generation = node.generation()};
  switch (model::DesiredOf(node.state())) {
    case model::Desired::kRun:
      seen.phase = Phase::kRunning;
      break;
    case model::Desired::kStop:
      seen.phase = Phase::kStopped;
      break;
    case model::Desired::kDelete:
      seen.phase = Phase::kDeleted;
      break;
  }
  return seen;
}

}  // namespace torus::backend
