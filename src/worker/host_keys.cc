#include "worker/host_keys.h"

#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "base/fault.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace torus::worker {
namespace {

constexpr const char* kTypes[] = {"ed25519", "ecdsa"};

std::string KeyName(const char* type) { return fmt::format("/ssh_host_{}_key", type); }

}  // namespace

Status EnsureHostKeys(const std::string& keys_folder, const std::string& host_name) {
  TORUS_RETURN_IF_ERROR(MakeFolders(keys_folder, 0700));
  for (const char* type : kTypes) {
    const std::string path = keys_folder + KeyName(type);
    if (access(path.c_str(), F_OK) == 0) continue;
    // The private half gets its name last: a key that is there has its public half too.
    const std::string making = path + ".making";
    unlink(making.c_str());
    TORUS_RETURN_IF_ERROR(RunChecked(
        {"ssh-keygen", "-q", "-t", type, "-N", "", "-C", "root@" + host_name, "-f", making}));
    FaultPoint("worker.host_key");
    if (rename((making + ".pub").c_str(), (path + ".pub").c_str()) != 0 ||
        rename(making.c_str(), path.c_str()) != 0)
      return ErrnoStatus(errno, "rename", making);
  }
  return {};
}

Status CopyHostKeys(const std::string& keys_folder, const std::string& folder, uint32_t owner) {
  TORUS_RETURN_IF_ERROR(MakeFolders(folder, 0755));
  if (chown(folder.c_str(), owner, owner) != 0)
    return ErrnoStatus(errno, "change the owner of", folder);
  for (const char* type : kTypes) {
    for (const char* suffix : {"", ".pub"}) {
      TORUS_ASSIGN_OR_RETURN(const std::string key, ReadFile(keys_folder + KeyName(type) + suffix));
      const mode_t mode = *suffix == '\0' ? 0600 : 0644;
      TORUS_RETURN_IF_ERROR(
          WriteFile(folder + KeyName(type) + suffix, key, {.mode = mode, .owner = owner}));
    }
  }
  return {};
}

Result<std::map<std::string, std::string>> PublicHostKeys(const std::string& keys_folder) {
  std::map<std::string, std::string> keys;
  for (const char* type : kTypes) {
    TORUS_ASSIGN_OR_RETURN(const std::string text, ReadFile(keys_folder + KeyName(type) + ".pub"));
    std::istringstream words(text);
    std::string name, value;
    if (!(words >> name >> value))
      return Internal("{}{}.pub is not a public key", keys_folder, KeyName(type));
    keys[name] = value;
  }
  return keys;
}

}  // namespace torus::worker
