// The user namespace of a VM: its root is an ordinary uid of the host's.
//
// It is that uid's, too, in what the kernel counts by user (inotify, message queues, pending
// signals): made by the host's root it would use up the host's own share of those, and every VM's.
//
// Lives while the object does or a process is in it; nothing is left when this process is killed.
#ifndef TORUS_WORKER_USER_NAMESPACE_H_
#define TORUS_WORKER_USER_NAMESPACE_H_

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace torus::worker {

class UserNamespace {
 public:
  // Maps 0 … kUidCount - 1 to `uid_base` and on. REQUIRES: root.
  static Result<UserNamespace> Make(uint32_t uid_base);

  int fd() const { return fd_.get(); }
  // Where other processes of the host find it.
  std::string path() const;

 private:
  explicit UserNamespace(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace torus::worker

#endif  // TORUS_WORKER_USER_NAMESPACE_H_
