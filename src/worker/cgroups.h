// The cgroups of a sandbox, in whatever hierarchies this host has (v1, v2 or both).
#ifndef TORUS_WORKER_CGROUPS_H_
#define TORUS_WORKER_CGROUPS_H_

#include <string>

#include "base/status.h"

namespace torus::worker {

// Kills every process in the cgroups of that name and removes them; none is success.
// DEADLINE_EXCEEDED when a process does not die within ten seconds.
Status RemoveCgroups(const std::string& name);

}  // namespace torus::worker

#endif  // TORUS_WORKER_CGROUPS_H_
