// Which system calls a VM's processes may make: runc's recommended profile, an allowlist with an
// error of EPERM for the rest, expressed for the capabilities that a VM has.
#ifndef TORUS_WORKER_SECCOMP_H_
#define TORUS_WORKER_SECCOMP_H_

#include <nlohmann/json.hpp>

namespace torus::worker {

// The `linux.seccomp` object of an OCI configuration.
nlohmann::json SeccompProfile();

}  // namespace torus::worker

#endif  // TORUS_WORKER_SECCOMP_H_
