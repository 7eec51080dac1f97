// Who may log in: the users and keys that metadata names, as Compute Engine reads it.
//
// `ssh-keys` has lines of "USER:KEY"; a key that ends in `google-ssh {"userName":…,"expireOn":…}`
// ends at that time. The node's own keys and the project's count, unless the node says
// block-project-ssh-keys=TRUE or has the legacy `sshKeys`, which replaces the project's.
//
// Pure. Thread-safety: values.
#ifndef TORUS_WORKER_ACCOUNTS_H_
#define TORUS_WORKER_ACCOUNTS_H_

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torus::worker {

// In seconds: "never" is often written as the year 9999, which nanoseconds cannot hold.
using WallTime = std::chrono::sys_seconds;
using Metadata = std::map<std::string, std::string>;

struct Accounts {
  std::map<std::string, std::vector<std::string>> keys;  // by user: lines of authorized_keys
  std::vector<std::string> skipped;                      // why a line was left out; tells no key
  std::optional<WallTime> next_expiry;                   // when the next of these keys ends
};

WallTime WallNow();

Accounts ReadAccounts(const Metadata& node, const Metadata& project, WallTime now);

// Whether the name is one that useradd takes and that is safe as a file's name.
bool IsUserName(std::string_view name);

// "2026-01-02T03:04:05+0000", "…Z" or "…+01:00".
std::optional<WallTime> ParseTime(std::string_view text);

}  // namespace torus::worker

#endif  // TORUS_WORKER_ACCOUNTS_H_
