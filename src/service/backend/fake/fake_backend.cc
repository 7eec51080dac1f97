#include "service/backend/fake/fake_backend.h"

namespace torus::backend {

using Phase = model::Observation::Phase;

Status FakeBackend::Admit(const hardware::AcceleratorType&) const { return {}; }

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
