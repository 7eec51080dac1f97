// The fake backend: nodes live without VMs. For people who test automation only, for machines
// without root, and for load tests. Takes slices of any size.
#ifndef TORUS_SERVICE_BACKEND_FAKE_FAKE_BACKEND_H_
#define TORUS_SERVICE_BACKEND_FAKE_FAKE_BACKEND_H_

#include "service/backend/backend.h"

namespace torus::backend {

class FakeBackend : public Backend {
 public:
  Status Admit(const hardware::AcceleratorType& type) const override;
  Status CheckLogin() const override;
  model::Observation Converge(const model::NodeRecord& node,
                              const model::ProjectRecord& project) override;
};

}  // namespace torus::backend

#endif  // TORUS_SERVICE_BACKEND_FAKE_FAKE_BACKEND_H_
