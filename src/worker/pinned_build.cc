#include "worker/pinned_build.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/fault.h"
#include "base/file.h"

namespace torus::worker {
namespace {

namespace fs = std::filesystem;

constexpr char kVerify[] = "torus-verify";
constexpr char kPython[] = "python";          // the package torus_tpu
constexpr char kTensorflow[] = "tensorflow";  // the adapters, each in a folder of its version

// A link when the file may be read by all (the VM's users are strangers to it), else a copy.
Status Pin(const std::string& source, const std::string& target) {
  struct stat info;
  if (access(target.c_str(), F_OK) == 0) return {};
  if (stat(source.c_str(), &info) != 0)
    return FailedPrecondition(
        "cannot find {}, which new TPU VMs get: {}. Build it, or restart torus serve with --libtpu "
        "and --engine naming what there is",
        source, std::strerror(errno));
  const std::string making = target + ".making";
  unlink(making.c_str());
  const bool linked =
      (info.st_mode & 0444) == 0444 &&
      linkat(AT_FDCWD, source.c_str(), AT_FDCWD, making.c_str(), AT_SYMLINK_FOLLOW) == 0;
  if (!linked) {
    std::error_code error;
    fs::copy_file(source, making, error);
    if (error) return ErrnoStatus(error.value(), "copy", source);
    if (chmod(making.c_str(), 0755) != 0) return ErrnoStatus(errno, "set the mode of", making);
  }
  FaultPoint("worker.pin");
  if (rename(making.c_str(), target.c_str()) != 0) return ErrnoStatus(errno, "rename", making);
  return {};
}

// The files in the folder of a build that go with its libtpu.so, by their place there.
std::vector<fs::path> CompanionsIn(const fs::path& build) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::exists(build / kVerify, error)) files.emplace_back(kVerify);
  for (const auto& version : fs::directory_iterator(build / kTensorflow, error)) {
    const auto adapter = fs::path(kTensorflow) / version.path().filename() / "adapter.so";
    if (fs::exists(build / adapter, error)) files.push_back(adapter);
  }
  for (const auto& file : fs::recursive_directory_iterator(build / kPython, error)) {
    if (file.is_regular_file()) files.push_back(file.path().lexically_relative(build));
  }
  return files;
}

// Before libtpu.so, by which a start that was cut off tells that it is still to be done.
Status PinCompanions(const std::string& folder, const std::string& libtpu) {
  if (access((folder + "/libtpu.so").c_str(), F_OK) == 0) return {};
  std::error_code error;
  for (const fs::path& library : {fs::path(libtpu), fs::canonical(libtpu, error)}) {
    const auto files = CompanionsIn(library.parent_path());
    for (const auto& file : files) {
      TORUS_RETURN_IF_ERROR(MakeFolders(fs::path(folder) / file.parent_path(), 0755));
      TORUS_RETURN_IF_ERROR(Pin(library.parent_path() / file, fs::path(folder) / file));
    }
    if (!files.empty()) break;
  }
  return {};
}

}  // namespace

Status PinBuild(const std::string& folder, const std::string& libtpu, const std::string& engine) {
  TORUS_RETURN_IF_ERROR(MakeFolders(folder + "/engine", 0755));
  TORUS_RETURN_IF_ERROR(PinCompanions(folder, libtpu));
  TORUS_RETURN_IF_ERROR(Pin(libtpu, folder + "/libtpu.so"));
  return Pin(engine, folder + "/engine/xla_cpu.so");
}

}  // namespace torus::worker
