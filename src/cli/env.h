// The environment that points gcloud and the client libraries at Torus, as lines for a shell.
//
// Pure but for ConfigFolder: what the rest reads of the environment is an argument. Thread-safe.
#ifndef TORUS_CLI_ENV_H_
#define TORUS_CLI_ENV_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/client.h"

namespace torus::cli {

enum class Shell { kPosix, kFish };

// "bash", "zsh", "sh", "dash", "ksh", "posix" or "fish". INVALID_ARGUMENT lists them.
Result<Shell> ParseShell(std::string_view name);

struct EnvRequest {
  Endpoint endpoint;
  std::string project;
  std::string zone;           // empty: none is set
  std::string config_folder;  // CLOUDSDK_CONFIG
  // Looks up a variable as it is now; empty where it is unset.
  std::function<std::string(const char*)> now;
};

struct Environ {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> unset;  // that would lead elsewhere
};

// What to set and what to unset.
Environ MakeEnvironment(const EnvRequest& request);

// Where gcloud keeps its configuration while it is pointed here. FAILED_PRECONDITION if nothing
// says where the user's home is.
Result<std::string> ConfigFolder();

// The lines that bring it about, and those that take it back.
std::string PrintEnvironment(const Environ& environment, Shell shell);
std::string PrintUnset(const EnvRequest& request, Shell shell);

// Every API that gcloud can be told to find elsewhere: the names of its api_endpoint_overrides.
std::vector<std::string_view> OverridableApis();

}  // namespace torus::cli

#endif  // TORUS_CLI_ENV_H_
