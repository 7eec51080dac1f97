// Keys by ssh-keygen; files by base/file.h.
#include "cli/ssh_key.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/file.h"
#include "base/subprocess.h"

namespace torus::cli {
namespace {

// The first two words of a public key's line.
Result<std::string> WithoutComment(std::string_view line, const std::string& path) {
  line = line.substr(0, line.find_first_of("\r\n"));
  const size_t type = line.find(' ');
  const size_t key_end = type == line.npos ? line.npos : line.find(' ', type + 1);
  if (type == 0 || type == line.npos || line.size() < type + 2)
    return InvalidArgument("{} does not hold a public SSH key", path);
  return std::string(line.substr(0, key_end));
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Status MakeKey(const std::string& path) {
  std::cerr << "Making an SSH key for TPU VMs: " << path << std::endl;
  TORUS_RETURN_IF_ERROR(RunChecked(
      {"ssh-keygen", "-q", "-t", "rsa", "-b", "3072", "-N", "", "-C", "torus", "-f", path}));
  return {};
}

Status MakePublicKey(const std::string& path) {
  TORUS_ASSIGN_OR_RETURN(const std::string line, RunChecked({"ssh-keygen", "-y", "-f", path}));
  return WriteFile(path + ".pub", line, {.mode = 0644});
}

// Calls `visit` with each line, without its newline.
template <typename Visitor>
void ForEachLine(std::string_view text, Visitor visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// A lock on a folder, released when it dies.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0) flock(fd_, LOCK_EX);
  }
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace

Result<std::string> EnsureSshKey(const std::string& path) {
  const std::string public_path = path + ".pub";
  const std::string folder = std::filesystem::path(path).parent_path();
  TORUS_RETURN_IF_ERROR(MakeFolders(folder, 0700));
  const FolderLock lock(folder);  // two first logins at once make one key
  if (!Exists(path)) {
    std::error_code ignored;
    std::filesystem::remove(public_path, ignored);  // the other half of a key that is gone
    TORUS_RETURN_IF_ERROR(MakeKey(path));
  } else if (!Exists(public_path)) {
    TORUS_RETURN_IF_ERROR(MakePublicKey(path));
  }
  TORUS_ASSIGN_OR_RETURN(const std::string line, ReadFile(public_path));
  return WithoutComment(line, public_path);
}

std::optional<std::string> WithSshKey(std::string_view ssh_keys, std::string_view user,
                                      std::string_view public_key) {
  const std::string wanted = fmt::format("{}:{}", user, public_key);
  bool found = false;
  ForEachLine(ssh_keys, [&](std::string_view line) {
    found = found || line == wanted || line.starts_with(wanted + " ");
  });
  if (found) return std::nullopt;
  std::string all(ssh_keys);
  if (!all.empty() && all.back() != '\n') all += '\n';
  return all + wanted + " " + std::string(user);
}

std::string HostKeyAlias(std::string_view node_id, int worker) {
  return fmt::format("tpu.{}-{}", node_id, worker);
}

HostKeys HostKeysFromGuestAttributes(const Json& reply, std::string_view node_id,
                                     const std::vector<int>& workers) {
  HostKeys keys;
  const Json all = reply.value("guestAttributes", Json::array());
  for (const int worker : workers) {
    if (static_cast<size_t>(worker) >= all.size()) continue;
    const Json items =
        all[worker].value("queryValue", Json::object()).value("items", Json::array());
    for (const Json& item : items) {
      if (item.value("namespace", "") != "hostkeys") continue;
      const std::string line = item.value("key", "") + " " + item.value("value", "");
      // Only a clean line may reach the file.
      if (line.find_first_of("\r\n") == line.npos)
        keys[HostKeyAlias(node_id, worker)].push_back(line);
    }
  }
  return keys;
}

std::string WithHostKeys(std::string_view known_hosts, const HostKeys& keys) {
  std::string text;
  ForEachLine(known_hosts, [&](std::string_view line) {
    if (!keys.contains(std::string(line.substr(0, line.find(' ')))))
      text += std::string(line) + "\n";
  });
  for (const auto& [alias, lines] : keys) {
    for (const std::string& line : lines) text += alias + " " + line + "\n";
  }
  return text;
}

Status WriteHostKeys(const std::string& path, const HostKeys& keys) {
  const std::string folder = std::filesystem::path(path).parent_path();
  TORUS_RETURN_IF_ERROR(MakeFolders(folder, 0700));
  const FolderLock lock(folder);
  std::string before;
  if (auto text = ReadFile(path)) {
    before = *std::move(text);
  } else if (text.error().code() != Code::kNotFound) {
    return text.error();
  }
  const std::string after = WithHostKeys(before, keys);
  return after == before ? Status() : WriteFile(path, after, {.mode = 0600});
}

}  // namespace torus::cli
