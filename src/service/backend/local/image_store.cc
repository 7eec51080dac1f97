#include "service/backend/local/image_store.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace torus::backend {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kTemporary = "making-";
constexpr uint64_t kBytesNeeded = 1ull << 30;  // twice what an image takes
constexpr uint64_t kPythonBytes = 4ull << 30;  // and of a set of Python packages
constexpr auto kTimeout = std::chrono::minutes(20);
constexpr auto kSetup = std::chrono::minutes(2);

// The folder's lock, held while the descriptor is open. Waits for it until `stop`, or with
// `try_only` fails with UNAVAILABLE when another process holds it.
Result<Fd> TakeLock(const std::string& folder, bool try_only, const std::stop_token& stop) {
  const std::string path = folder + "/lock";
  Fd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return Error(ErrnoStatus(errno, "open", path));
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Error(ErrnoStatus(errno, "lock", path));
    if (try_only) return Unavailable("another process is making an image");
    if (stop.stop_requested()) return Cancelled("making the base image was cancelled");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return lock;
}

Status CheckSpace(const std::string& folder, const ImageRecipe& recipe) {
  const uint64_t needed = kBytesNeeded + kPythonBytes * recipe.python.size();
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) return ErrnoStatus(errno, "look at", folder);
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  if (free >= needed) return {};
  return ResourceExhausted(
      "making a base image needs {} MB free in {}, which has {} MB; make room and try again",
      needed >> 20, folder, free >> 20);
}

// mmdebstrap's own lines, with the time so far, for whoever waits.
class Teller {
 public:
  Teller(const ImageProgress& progress, std::string_view digest)
      : progress_(progress), name_(digest.substr(0, 12)) {}
  void Say(std::string_view step) const {
    if (!progress_) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_);
    progress_(fmt::format("making base image {}: {} s, {}", name_, seconds.count(), step));
  }
  void Line(std::string_view line) const {
    if (!line.starts_with("I: ")) return;
    line.remove_prefix(3);
    while (line.ends_with('.')) line.remove_suffix(1);
    Say(line);
  }

 private:
  const ImageProgress& progress_;
  const std::string name_;
  const Clock::time_point start_ = Clock::now();
};

// The command in namespaces of its own: should this process die or give up, it dies with all that
// it has started, and none of its mounts (proc, the host's /sys and /dev) is ever the host's.
std::vector<std::string> Caged(std::vector<std::string> command) {
  std::vector<std::string> argv = {"setpriv", "--pdeathsig",  "KILL",
                                   "unshare", "--mount",      "--pid",
                                   "--fork",  "--kill-child", "--mount-proc"};
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

// Installs the packages into `root`.
Status Bootstrap(const ImageRecipe& recipe, const std::string& root, const Teller& teller,
                 const std::stop_token& stop) {
  std::vector<std::string> argv =
      Caged({"mmdebstrap", "--variant=minbase",
             fmt::format("--include={}", fmt::join(recipe.packages, ",")), recipe.suite, root});
  SubprocessOptions options{.timeout = kTimeout,
                            .on_line = [&](std::string_view line) { teller.Line(line); },
                            .stop = stop};
  if (!recipe.apt_sources.empty()) {
    argv.push_back("-");
    options.input = fmt::format("{}\n", fmt::join(recipe.apt_sources, "\n"));
  }
  const auto result = RunSubprocess(argv, options);
  if (!result) return internal::ImageError(result.error(), "");
  if (result->exit_code == 0) return {};
  return internal::ImageError(Status(Code::kInternal, "mmdebstrap failed"), result->output);
}

// Runs a script in the image, as root.
Status RunInside(const std::string& root, std::string script, std::chrono::minutes timeout,
                 const std::stop_token& stop) {
  // The service's umask is its own affair, the image's is 022.
  const auto result = RunChecked(
      Caged({"sh", "-c", "umask 022; exec chroot \"$1\" /bin/sh", "sh", root}),
      {.input = std::move(script),
       .timeout = timeout,
       .environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                       "HOME=/root", "LANG=C.UTF-8"},
       .stop = stop});
  return result ? Status() : result.error();
}

Status InstallPython(const PythonPackages& packages, const std::string& root,
                     const std::stop_token& stop) {
  constexpr char kRequirements[] = "/tmp/requirements.txt";
  TORUS_RETURN_IF_ERROR(WriteFile(root + kRequirements, packages.requirements));
  const std::string& environment = packages.environment;
  std::string script = ". /etc/profile.d/torus.sh\nset -e\n";
  if (!environment.empty()) script += fmt::format("python3 -m venv {}\n", environment);
  // Pip wants that flag for the system's own Python, and does not mind it elsewhere.
  script += fmt::format(
      "exec {}/bin/python3 -m pip install --no-cache-dir --break-system-packages {} -r {} 2>&1\n",
      environment.empty() ? "/usr" : environment,
      packages.locked ? "--no-deps --require-hashes" : "", kRequirements);
  const Status done = RunInside(root, script, kTimeout, stop);
  return done.ok() ? done : internal::PipError(done, packages.requirements);
}

// Writes the recipe's files, installs its Python packages and runs its script.
Status Customise(const ImageRecipe& recipe, const std::string& root, const Teller& teller,
                 const std::stop_token& stop) {
  for (const ImageFile& file : recipe.files) {
    TORUS_RETURN_IF_ERROR(MakeFolders(root + fs::path(file.path).parent_path().string()));
    TORUS_RETURN_IF_ERROR(WriteFile(root + file.path, file.content, {.mode = file.mode}));
  }
  const auto present = ReadFile(root + "/etc/ssl/certs/ca-certificates.crt");
  const std::string trusted = root + "/usr/local/share/ca-certificates";
  TORUS_RETURN_IF_ERROR(MakeFolders(trusted));
  int number = 0;
  for (const auto& certificate :
       internal::MissingCertificates(recipe.ca_bundle, present ? *present : ""))
    TORUS_RETURN_IF_ERROR(WriteFile(fmt::format("{}/host-{}.crt", trusted, number++), certificate));
  TORUS_RETURN_IF_ERROR(
      RunInside(root, "exec update-ca-certificates >/dev/null 2>&1\n", kSetup, stop));
  for (const PythonPackages& packages : recipe.python) {
    std::string_view first = packages.requirements;
    teller.Say(fmt::format("installing {}", first.substr(0, first.find_first_of(" \\\n"))));
    TORUS_RETURN_IF_ERROR(InstallPython(packages, root, stop));
  }
  return RunInside(root, recipe.script, kSetup, stop);
}

// Makes the tree last before its name says that it is whole.
void SyncFileSystem(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  syncfs(fd);
  close(fd);
}

}  // namespace

namespace internal {

Status ImageError(const Status& error, std::string_view output) {
  const auto says = [&](std::string_view text) {
    return output.find(text) != std::string_view::npos;
  };
  if (error.code() == Code::kCancelled)
    return Status(Code::kCancelled, "making the base image was cancelled");
  if (error.code() == Code::kNotFound || says("failed to execute mmdebstrap")) {
    return FailedPrecondition(
        "a base image is made by mmdebstrap, which is not installed; install it: "
        "apt-get install mmdebstrap");
  }
  if (says("No space left on device") || says("not enough free space"))
    return ResourceExhausted("the disk is full: making the base image failed; make room");
  std::string_view tail = output.substr(output.size() - std::min<size_t>(output.size(), 600));
  if (says("Could not resolve") || says("Temporary failure resolving") ||
      says("Could not connect") || says("Unable to connect") || says("Failed to fetch")) {
    return Unavailable(
        "making the base image failed: its Debian packages could not be fetched; check the network "
        "and /etc/apt/sources.list: {}",
        tail);
  }
  if (tail.empty()) return error;
  return Internal("making the base image failed: {}: {}", error.message(), tail);
}

Status PipError(const Status& error, std::string_view requirements) {
  if (error.code() != Code::kInternal) return error;
  const std::string_view what = requirements.substr(0, requirements.find_first_of(" \\\n"));
  // Also what pip says where it reaches no index at all.
  if (error.message().find("No matching distribution") != std::string::npos)
    return Unavailable(
        "making the base image failed: pip did not find {} or what it needs; check the network and "
        "/etc/pip.conf: {}",
        what, error.message());
  return Internal("making the base image failed: pip could not install {}: {}", what,
                  error.message());
}

std::vector<std::string> MissingCertificates(std::string_view wanted, std::string_view present) {
  const auto compact = [](std::string text) {
    std::erase_if(text, [](unsigned char c) { return std::isspace(c); });
    return text;
  };
  std::set<std::string> known;
  for (const std::string& certificate : Certificates(present)) known.insert(compact(certificate));
  std::vector<std::string> missing;
  for (std::string& certificate : Certificates(wanted))
    if (known.insert(compact(certificate)).second) missing.push_back(std::move(certificate));
  return missing;
}

}  // namespace internal

ImageStore::ImageStore(std::string folder) : folder_(std::move(folder)) {}

std::string ImageStore::RootOf(std::string_view digest) const {
  return fmt::format("{}/{}/rootfs", folder_, digest);
}

bool ImageStore::Has(std::string_view digest) const {
  std::error_code error;
  return fs::is_directory(RootOf(digest), error);
}

Result<std::string> ImageStore::Ensure(const ImageRecipe& recipe, const ImageProgress& progress,
                                       const std::stop_token& stop) {
  const std::string digest = recipe.Digest();
  if (Has(digest)) return RootOf(digest);
  if (geteuid() != 0)
    return FailedPrecondition("a base image is made as root; run the service as root (sudo)");
  // The image has programs that run as root for whoever may reach them: nobody else may.
  TORUS_RETURN_IF_ERROR(MakeFolders(folder_, 0700));
  const Teller teller(progress, digest);
  teller.Say("waiting for its turn");
  TORUS_ASSIGN_OR_RETURN(const Fd lock, TakeLock(folder_, false, stop));
  if (Has(digest)) return RootOf(digest);
  TORUS_RETURN_IF_ERROR(CheckSpace(folder_, recipe));

  const std::string making = fmt::format("{}/{}{}-{}", folder_, kTemporary, digest.substr(0, 12),
                                         Clock::now().time_since_epoch().count());
  TORUS_RETURN_IF_ERROR(MakeFolders(making, 0700));
  FaultPoint("image.begin");
  Status status = Make(recipe, making + "/rootfs", progress, stop);
  if (status.ok()) {
    FaultPoint("image.rename");
    const std::string whole = fmt::format("{}/{}", folder_, digest);
    if (rename(making.c_str(), whole.c_str()) == 0) {
      teller.Say("done");
      return RootOf(digest);
    }
    status = ErrnoStatus(errno, "rename an image to", whole);
  }
  // Whoever cancels is in a hurry: the next start removes it.
  if (stop.stop_requested()) return Cancelled("making the base image was cancelled");
  if (const Status removed = RemoveTree(making); !removed.ok()) {
    return Error(Status(status.code(), status.message() + "; and " + removed.message()));
  }
  return Error(status);
}

Status ImageStore::Make(const ImageRecipe& recipe, const std::string& root,
                        const ImageProgress& progress, const std::stop_token& stop) {
  const Teller teller(progress, recipe.Digest());
  teller.Say("fetching packages");
  TORUS_RETURN_IF_ERROR(Bootstrap(recipe, root, teller, stop));
  FaultPoint("image.bootstrapped");
  teller.Say("setting it up");
  TORUS_RETURN_IF_ERROR(Customise(recipe, root, teller, stop));
  if (stop.stop_requested()) return Cancelled("making the base image was cancelled");
  if (chmod(root.c_str(), 0755) != 0) return ErrnoStatus(errno, "set the mode of", root);
  SyncFileSystem(root);
  return {};
}

Status ImageStore::RemoveLeftovers() {
  std::error_code error;
  if (!fs::is_directory(folder_, error)) return {};
  const auto lock = TakeLock(folder_, true, {});
  if (!lock) return lock.error().code() == Code::kUnavailable ? Status() : lock.error();
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().filename().string().starts_with(kTemporary))
      TORUS_RETURN_IF_ERROR(RemoveTree(entry.path()));
  }
  return {};
}

}  // namespace torus::backend
