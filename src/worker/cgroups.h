// The cgroups of a sandbox, in whatever hierarchies this host has (v1, v2 or both).
#ifndef TORUS_WORKER_CGROUPS_H_
#define TORUS_WORKER_CGROUPS_H_

#include <cstdint>
#include <string>

#include "base/status.h"

namespace torus::worker {

// Bounds what the cgroup's TCP sockets hold, where that is no part of its memory (cgroup v1): else
// a VM could use up all that the host has for sockets. For sockets made from now on.
Status LimitTcpMemory(const std::string& name, int64_t bytes);

// Kills every process in the cgroups of that name and removes them; none is success.
// DEADLINE_EXCEEDED when a process does not die within ten seconds.
Status RemoveCgroups(const std::string& name);

}  // namespace torus::worker

#endif  // TORUS_WORKER_CGROUPS_H_
