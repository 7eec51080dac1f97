// A file is a Header, the key, the fingerprint and the executable. All file names are relative to
// an open folder, whose owner and mode were looked at.
#include "tpu/device/program_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"

namespace torus::tpu {
namespace {

struct Header {
  char magic[8];  // with the format's version
  uint64_t checksum;
  uint64_t key_size, fingerprint_size, executable_size;
};
constexpr char kMagic[8] = {'T', 'O', 'R', 'U', 'S', 'P', 'R', '1'};

constexpr std::string_view kEnding = ".program";
constexpr std::string_view kUnfinished = ".unfinished";
constexpr time_t kSurelyDead = 3600;  // no write takes longer, seconds
constexpr int64_t kLeftOfDisk = int64_t{256} << 20;
// Shares of the limit: what is written before all files are looked at, and what is then let go.
constexpr int64_t kTrimEvery = 32, kLetGo = 8;

std::string NameOf(std::string_view key) { return fmt::format("{:016x}{}", Fnv1a(key), kEnding); }

Status Failed(const std::string& path, std::string_view what) {
  return FailedPrecondition("{} {}: {}", path, what, std::generic_category().message(errno));
}

uint64_t Random() {
  uint64_t random = 0;
  const bool drawn = getrandom(&random, sizeof(random), GRND_NONBLOCK) == sizeof(random);
  return drawn ? random : static_cast<uint64_t>(clock());  // files are made with O_EXCL
}

// ---- The folder

// Whoever owns a link may turn it to any place: only root's and this user's are followed.
Status CheckLink(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return Status();
  if (status.st_uid == 0 || status.st_uid == geteuid()) return Status();
  return FailedPrecondition("{} is a link of another user", path);
}

Status CheckPrivate(const std::string& path, const Fd& folder) {
  struct stat status {};
  if (fstat(folder.get(), &status) != 0) return Failed(path, "cannot be looked at");
  if (status.st_uid != geteuid()) return FailedPrecondition("{} is another user's", path);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return Status();
  return FailedPrecondition("{} can be written by other users; `chmod go-w` mends that", path);
}

// NOT_FOUND where it is missing and not to be made.
Result<Fd> OpenFolder(const std::string& path, bool make) {
  if (!path.starts_with('/')) return InvalidArgument("{} is no absolute path", path);
  for (size_t end = 0; end != path.npos;) {
    end = path.find('/', end + 1);
    const auto part = path.substr(0, end);
    TORUS_RETURN_IF_ERROR(CheckLink(part));
    if (make && mkdir(part.c_str(), 0700) != 0 && access(part.c_str(), F_OK) != 0) {
      return Error(Failed(part, "cannot be made"));
    }
  }
  Fd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder && errno == ENOENT) return NotFound("{} is missing", path);
  if (!folder) return Error(Failed(path, "cannot be opened"));
  TORUS_RETURN_IF_ERROR(CheckPrivate(path, folder));
  return folder;
}

// ---- A file

std::optional<std::string> ReadWhole(const Fd& file, size_t size) {
  std::string bytes(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t some = read(file.get(), bytes.data() + done, size - done);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return std::nullopt;
    done += static_cast<size_t>(some);
  }
  return bytes;
}

bool WriteWhole(const Fd& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t some = write(file.get(), bytes.data(), bytes.size());
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(some));
  }
  return true;
}

std::string Pack(std::string_view key, const ProgramCache::Entry& entry) {
  Header header{.checksum = 0,
                .key_size = key.size(),
                .fingerprint_size = entry.fingerprint.size(),
                .executable_size = entry.executable.size()};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::string file(reinterpret_cast<const char*>(&header), sizeof(header));
  file.append(key).append(entry.fingerprint).append(entry.executable);
  header.checksum = Fnv1a(file);
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

struct Unpacked {
  std::string_view key, fingerprint, executable;
};

// None where the bytes are not what Pack made.
std::optional<Unpacked> Unpack(std::string& file) {
  Header header{};
  if (file.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof(header));
  const auto checksum = std::exchange(header.checksum, 0);
  std::memcpy(file.data(), &header, sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || checksum != Fnv1a(file)) {
    return std::nullopt;
  }
  const auto rest = std::string_view(file).substr(sizeof(header));
  const auto& [key, fingerprint, executable] =
      std::tie(header.key_size, header.fingerprint_size, header.executable_size);
  if (key > rest.size() || fingerprint > rest.size() - key ||
      executable != rest.size() - key - fingerprint) {
    return std::nullopt;
  }
  return Unpacked{rest.substr(0, key), rest.substr(key, fingerprint),
                  rest.substr(key + fingerprint)};
}

bool HasRoom(const Fd& folder, size_t size) {
  rlimit file_size{};  // beyond it a write would end the process
  struct statvfs disk {};
  if (getrlimit(RLIMIT_FSIZE, &file_size) != 0 || size > file_size.rlim_cur) return false;
  if (fstatvfs(folder.get(), &disk) != 0) return false;
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  return free >= size + kLeftOfDisk;
}

// Writes beside and renames; what fails leaves nothing.
bool Place(const Fd& folder, const std::string& name, std::string_view bytes) {
  const auto beside = fmt::format("{:016x}{}", Random(), kUnfinished);
  Fd file(openat(folder.get(), beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return false;
  const bool written = WriteWhole(file, bytes);
  file.Close();
  if (written && renameat(folder.get(), beside.c_str(), folder.get(), name.c_str()) == 0) {
    return true;
  }
  unlinkat(folder.get(), beside.c_str(), 0);
  return false;
}

// ---- All files

struct File {
  std::string name;
  int64_t bytes;  // of the disk
  timespec used;
};

// The programs; of what other processes left unfinished, what is surely dead is removed.
std::vector<File> ListFiles(const Fd& folder) {
  std::vector<File> files;
  DIR* listing = fdopendir(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listing == nullptr) return files;
  while (const dirent* entry = readdir(listing)) {  // NOLINT(concurrency-mt-unsafe)
    const std::string name = entry->d_name;
    struct stat status {};
    if (fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (name.ends_with(kUnfinished) && status.st_mtime < time(nullptr) - kSurelyDead) {
      unlinkat(folder.get(), name.c_str(), 0);
    } else if (name.ends_with(kEnding)) {
      files.push_back(
          {name, std::max<int64_t>(status.st_size, status.st_blocks * 512), status.st_mtim});
    }
  }
  closedir(listing);
  return files;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

// What the user set; the default where that cannot be read.
int64_t LimitFromEnvironment(int64_t default_bytes) {
  constexpr char kName[] = "TORUS_PROGRAM_CACHE_MAX_SIZE";
  const auto text = Variable(kName);
  if (text.empty()) return default_bytes;
  const auto limit = ParseCacheSize(text);
  if (limit) return *limit;
  std::fprintf(stderr, "libtpu.so keeps up to %lld bytes of compiled programs: %s is %s.\n",
               static_cast<long long>(default_bytes), kName, limit.error().message().c_str());
  return default_bytes;
}

}  // namespace

Result<int64_t> ParseCacheSize(std::string_view text) {
  const auto wrong = [text] {
    return InvalidArgument(
        "{}, which is no size: bytes, also as 500M or 2GiB, -1 for no limit, or 0 for no cache",
        text);
  };
  constexpr std::string_view kUnits = "KMGT";
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc()) return wrong();
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (bytes == -1 && unit.empty()) return std::numeric_limits<int64_t>::max();
  if (bytes < 0) return wrong();
  size_t power = 0;
  if (!unit.empty() && unit != "B") {
    power = kUnits.find(unit.front() == 'k' ? 'K' : unit.front()) + 1;
    unit.remove_prefix(1);
    if (power == 0) return wrong();
  }
  const int64_t thousand = unit.starts_with('i') ? 1024 : 1000;
  if (thousand == 1024) unit.remove_prefix(1);
  if (!unit.empty() && unit != "B") return wrong();
  for (; power > 0; --power) {
    if (__builtin_mul_overflow(bytes, thousand, &bytes)) return wrong();
  }
  return bytes;
}

ProgramCacheOptions ProgramCacheOptions::FromEnvironment() {
  ProgramCacheOptions options;
  const auto named = Variable("TORUS_PROGRAM_CACHE");
  if (named == "off") return options;
  options.limit_bytes = LimitFromEnvironment(options.limit_bytes);
  if (options.limit_bytes == 0) return options;
  options.named = !named.empty();
  if (options.named) {
    options.folder = named;
    return options;
  }
  const auto caches = Variable("XDG_CACHE_HOME"), home = Variable("HOME");
  if (caches.starts_with('/')) {  // another is to be ignored, says its specification
    options.folder = caches + "/torus/programs";
  } else if (home.starts_with('/')) {
    options.folder = home + "/.cache/torus/programs";
  }
  return options;
}

ProgramCache::ProgramCache(ProgramCacheOptions options)
    : options_(std::move(options)),
      since_trim_(static_cast<int64_t>(Random() %
                                       std::max<uint64_t>(options_.limit_bytes / kTrimEvery, 1))) {}

std::optional<ProgramCache::Entry> ProgramCache::Find(std::string_view key) {
  if (!on()) return std::nullopt;
  const auto folder = OpenFolder(options_.folder, /*make=*/false);
  if (!folder) {
    if (folder.error().code() != Code::kNotFound) GiveUp(folder.error());
    return std::nullopt;
  }
  const auto name = NameOf(key);
  const Fd file(openat(folder->get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const auto size = static_cast<size_t>(status.st_size);
  auto bytes = Takes(size) ? ReadWhole(file, size) : std::nullopt;
  const auto found = bytes ? Unpack(*bytes) : std::nullopt;
  if (!found) {
    unlinkat(folder->get(), name.c_str(), 0);
    return std::nullopt;
  }
  if (found->key != key) return std::nullopt;
  futimens(file.get(), nullptr);  // used now
  return Entry{std::string(found->fingerprint), std::string(found->executable)};
}

void ProgramCache::Insert(std::string_view key, const Entry& entry) {
  if (!on()) return;
  const auto folder = OpenFolder(options_.folder, /*make=*/true);
  if (!folder) return GiveUp(folder.error());
  const auto bytes = Pack(key, entry);
  if (!Takes(bytes.size()) || !HasRoom(*folder, bytes.size())) return;
  if (!Place(*folder, NameOf(key), bytes)) return;
  const auto size = static_cast<int64_t>(bytes.size());
  if (since_trim_.fetch_add(size) + size < options_.limit_bytes / kTrimEvery) return;
  since_trim_ = 0;
  Trim(*folder);
}

void ProgramCache::Remove(std::string_view key) {
  if (!on()) return;
  if (const auto folder = OpenFolder(options_.folder, /*make=*/false)) {
    unlinkat(folder->get(), NameOf(key).c_str(), 0);
  }
}

void ProgramCache::Trim(const Fd& folder) const {
  auto files = ListFiles(folder);
  int64_t total = 0;
  for (const File& file : files) total += file.bytes;
  if (total <= options_.limit_bytes) return;
  std::ranges::sort(
      files, {}, [](const File& file) { return std::pair(file.used.tv_sec, file.used.tv_nsec); });
  for (const File& file : files) {
    if (total <= options_.limit_bytes - options_.limit_bytes / kLetGo) return;
    if (unlinkat(folder.get(), file.name.c_str(), 0) == 0) total -= file.bytes;
  }
}

void ProgramCache::GiveUp(const Status& why) {
  if (unusable_.exchange(true) || !options_.named) return;
  std::fprintf(stderr, "libtpu.so keeps no compiled programs in TORUS_PROGRAM_CACHE: %s.\n",
               why.message().c_str());
}

}  // namespace torus::tpu
