// Which process: a pid and the time it started, so that a reused pid is told apart.
//
// Pure values and reads of /proc; thread-safe.
#ifndef TORUS_BASE_PROCESS_H_
#define TORUS_BASE_PROCESS_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace torus {

struct ProcessIdentity {
  int64_t pid = 0;
  uint64_t start_ticks = 0;  // field 22 of /proc/<pid>/stat
  auto operator<=>(const ProcessIdentity&) const = default;
};

// The identity of a living process; none when there is no such process or it is a zombie. An error
// when /proc cannot be read (no descriptor is left): then nobody can tell.
Result<std::optional<ProcessIdentity>> FindProcess(int64_t pid);

// As FindProcess, and none too when nobody can tell.
std::optional<ProcessIdentity> IdentifyProcess(int64_t pid);

// Whether this very process lives. When nobody can tell it is taken to live.
bool IsAlive(const ProcessIdentity& process);

// Takes the lock of a file (fcntl(2), a write lock on the whole of it) for as long as this process
// lives, and writes its pid into it, for people, if the disk lets it. False: another process has
// it. The file may not be opened and closed again by this process, which would give the lock up.
Result<bool> TakeLock(const std::string& path);

// The living process that has the lock of a file; none: nobody has, or there is no such file. The
// kernel knows, so it is true of a process that was stopped or killed anywhere.
std::optional<ProcessIdentity> LockHolder(const std::string& path);

}  // namespace torus

#endif  // TORUS_BASE_PROCESS_H_
