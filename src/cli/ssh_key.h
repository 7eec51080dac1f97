// The user's SSH key, the node's `ssh-keys` metadata and the known_hosts file.
//
// The key is gcloud's own, so both commands use one. The text functions are pure.
#ifndef TORUS_CLI_SSH_KEY_H_
#define TORUS_CLI_SSH_KEY_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/format.h"

namespace torus::cli {

// The public half ("ssh-rsa AAAA…", without its comment) of the key whose private half is at
// `path`. Makes both with ssh-keygen, without a passphrase, if the private one is missing; only the
// public one missing is made again from it. Several processes at once make one key. NOT_FOUND if
// there is no ssh-keygen; INVALID_ARGUMENT if the file is not a key.
Result<std::string> EnsureSshKey(const std::string& path);

// `ssh_keys` (lines of "USER:TYPE KEY COMMENT") with this user's key in it; nothing if it is there.
std::optional<std::string> WithSshKey(std::string_view ssh_keys, std::string_view user,
                                      std::string_view public_key);

// Lines "TYPE KEY" of each host alias.
using HostKeys = std::map<std::string, std::vector<std::string>>;

// The host keys in a reply of getGuestAttributes, for the alias of each worker.
HostKeys HostKeysFromGuestAttributes(const Json& reply, std::string_view node_id,
                                     const std::vector<int>& workers);

// "tpu.<id>-<worker>": what a worker is called in known_hosts, whatever its address.
std::string HostKeyAlias(std::string_view node_id, int worker);

// The text of a known_hosts file in which each alias has exactly these keys.
std::string WithHostKeys(std::string_view known_hosts, const HostKeys& keys);

// Writes them into the file, under a lock, whole or not at all. Makes its folder (0700).
Status WriteHostKeys(const std::string& path, const HostKeys& keys);

}  // namespace torus::cli

#endif  // TORUS_CLI_SSH_KEY_H_
