// The VM's own ssh host keys (ed25519 and ecdsa): made once, kept with its disk, handed into the
// VM read-only.
#ifndef TORUS_WORKER_HOST_KEYS_H_
#define TORUS_WORKER_HOST_KEYS_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"

namespace torus::worker {

// Makes the keys in `keys_folder` that are not there yet. Calls ssh-keygen.
Status EnsureHostKeys(const std::string& keys_folder, const std::string& host_name);

// Copies the keys to `folder`, owned by `owner` and closed to others, as sshd wants them.
Status CopyHostKeys(const std::string& keys_folder, const std::string& folder, uint32_t owner);

// The public keys as guest attributes have them: by type ("ssh-ed25519") the base64 text.
Result<std::map<std::string, std::string>> PublicHostKeys(const std::string& keys_folder);

}  // namespace torus::worker

#endif  // TORUS_WORKER_HOST_KEYS_H_
