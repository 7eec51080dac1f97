// Small files: read whole, written whole or not at all.
//
// Thread-safe. Paths must be the host's own: nothing here guards against a hostile symbolic link.
#ifndef TORUS_BASE_FILE_H_
#define TORUS_BASE_FILE_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace torus {

// The file's bytes. NOT_FOUND, PERMISSION_DENIED or INTERNAL, naming the path.
Result<std::string> ReadFile(const std::string& path);

struct WriteOptions {
  mode_t mode = 0644;
  std::optional<uid_t> owner;  // user and group; none: the process's own
  bool sync = false;           // survives a power cut once the call returns
};

// Replaces `path` by a file with these bytes: a reader, or a crash, sees the old file or the new
// one. RESOURCE_EXHAUSTED when the disk is full; otherwise as ReadFile.
Status WriteFile(const std::string& path, std::string_view bytes, const WriteOptions& options = {});

// Makes the folder and its parents, as far as they are missing, with `mode`, whatever the umask.
Status MakeFolders(const std::string& path, mode_t mode = 0755);

// Removes a tree, whatever is in it and however deep, following no link. What is mounted in it (as
// this process sees it) is unmounted first and never entered; one that cannot be is an error, and
// nothing is removed then. No such tree is success.
Status RemoveTree(const std::string& path);

// The error that errno `number` stands for; `what` and the path come first in the message.
Status ErrnoStatus(int number, std::string_view what, const std::string& path);

}  // namespace torus

#endif  // TORUS_BASE_FILE_H_
