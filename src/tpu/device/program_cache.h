// Compiled programs on disk: what one process compiled, the next one loads.
//
// A folder of this user's own, one file a program, named by a hash of its key. The file has the
// whole key, so no two programs are taken for each other, and a checksum: what is damaged or cut
// off is removed and counts as not there. A file is written beside its place and renamed, so other
// processes, and a process that is killed, leave all of it or nothing. Nothing here fails: a folder
// that cannot be used, or a full disk, only means that programs are compiled.
//
// Every program is worth it: XLA compiles the smallest in 7 ms, and loads it in 1.3.
//
// Thread-safety: all methods, from any thread and any number of processes.
#ifndef TORUS_TPU_DEVICE_PROGRAM_CACHE_H_
#define TORUS_TPU_DEVICE_PROGRAM_CACHE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/status.h"

namespace torus::tpu {

struct ProgramCacheOptions {
  // Made with mode 0700 when the first program is written. It must be this user's and writable by
  // nobody else, and no link of another user may lead to it. Empty: nothing is kept.
  std::string folder;
  bool named = false;  // by the user, who is told on stderr, once, if it cannot be used
  int64_t limit_bytes = int64_t{2} << 30;  // beyond it, what was used longest ago goes

  // TORUS_PROGRAM_CACHE: a folder, or "off". Else torus/programs in XDG_CACHE_HOME or ~/.cache.
  // TORUS_PROGRAM_CACHE_MAX_SIZE: the limit, as ParseCacheSize has it, 0 for "off"; one that cannot
  // be read is told on stderr, and the default stands.
  static ProgramCacheOptions FromEnvironment();
};

// Bytes: "1000000", "500M" (a million each), "2Gi" or "2GiB" (2^30 each). "-1" is JAX's word for no
// limit: the largest number. INVALID_ARGUMENT for anything else.
Result<int64_t> ParseCacheSize(std::string_view text);

class ProgramCache {
 public:
  struct Entry {
    std::string fingerprint;  // as the engine told it when it compiled; empty: it told none
    std::string executable;   // as the engine serialized it
    bool operator==(const Entry&) const = default;
  };

  explicit ProgramCache(ProgramCacheOptions options);

  bool on() const { return !options_.folder.empty() && !unusable_; }
  // Whether so much may be kept under one key, with the key: an eighth of the limit.
  bool Takes(size_t bytes) const { return bytes <= static_cast<size_t>(options_.limit_bytes) / 8; }

  std::optional<Entry> Find(std::string_view key);
  // Replaces what was there. What it does not take is not kept, nor is what would leave the disk
  // with less than 256 MiB.
  void Insert(std::string_view key, const Entry& entry);
  // For a program that cannot be loaded.
  void Remove(std::string_view key);

 private:
  void GiveUp(const Status& why);
  void Trim(const Fd& folder) const;

  const ProgramCacheOptions options_;
  std::atomic<bool> unusable_ = false;
  // Bytes written since all files were looked at. It begins somewhere, so that of many processes
  // that write little, some do.
  std::atomic<int64_t> since_trim_;
};

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_PROGRAM_CACHE_H_
