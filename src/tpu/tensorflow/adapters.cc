#include "tpu/tensorflow/adapters.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <link.h>

#include <filesystem>
#include <string>
#include <vector>

namespace torus::tensorflow {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "tensorflow";
constexpr char kFile[] = "adapter.so";
constexpr char kFramework[] = "libtensorflow_cc.so";
constexpr char kSetApi[] = "torus_adapter_set_api";

// The path of TensorFlow's own library, as it was loaded.
std::string FrameworkPath() {
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        const fs::path loaded(info->dlpi_name);
        if (!loaded.filename().string().starts_with(kFramework)) return 0;
        *static_cast<std::string*>(out) = loaded;
        return 1;
      },
      &path);
  return path;
}

// "2.20.0" of the TensorFlow in this process.
Result<std::string> FrameworkVersion() {
  const auto path = FrameworkPath();
  if (path.empty()) return NotFound("no TensorFlow is loaded in this process ({})", kFramework);
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  void* const version = library == nullptr ? nullptr : dlsym(library, "TF_Version");
  if (version == nullptr) return NotFound("{} does not say its version", path);
  std::string said = reinterpret_cast<const char* (*)()>(version)();
  dlclose(library);  // which only looked it up
  return said;
}

fs::path Folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&Folder), &info) == 0) return {};
  std::error_code error;
  const auto beside = fs::path(info.dli_fname).parent_path() / kFolder;
  if (fs::exists(beside, error)) return beside;
  return fs::canonical(info.dli_fname, error).parent_path() / kFolder;
}

std::vector<std::string> VersionsIn(const fs::path& folder) {
  std::vector<std::string> versions;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    versions.push_back(entry.path().filename());
  std::ranges::sort(versions);
  return versions;
}

std::string AdaptersIn(const fs::path& folder) {
  const auto versions = VersionsIn(folder);
  if (versions.empty()) return "There is no adapter for any TensorFlow: build Torus with one";
  return fmt::format("There are adapters for {}: install a tensorflow-tpu of one of these",
                     fmt::join(versions, ", "));
}

// A patch release keeps the C++ of its minor version.
std::string MinorOf(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

Result<void*> OpenAdapter() {
  TORUS_ASSIGN_OR_RETURN(const auto version, FrameworkVersion());
  const auto folder = Folder();
  const auto file = folder / MinorOf(version) / kFile;
  std::error_code error;
  if (!fs::exists(file, error))
    return Unimplemented("TensorFlow {} has no TPU here: there is no {}. {}", version,
                         file.string(), AdaptersIn(folder));
  void* const adapter = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (adapter == nullptr)
    return FailedPrecondition("the TPU adapter for TensorFlow {} does not open: {}", version,
                              dlerror());
  return adapter;
}

}  // namespace

Status BindAdapter(std::span<const Target> targets, const PJRT_Api* api) {
  TORUS_ASSIGN_OR_RETURN(void* const adapter, OpenAdapter());
  void* const set_api = dlsym(adapter, kSetApi);
  if (set_api == nullptr) return FailedPrecondition("the TPU adapter has no {}", kSetApi);
  reinterpret_cast<void (*)(const PJRT_Api*)>(set_api)(api);
  for (const auto& target : targets) {
    void* const function = dlsym(adapter, target.name);
    if (function != nullptr) *target.address = function;
  }
  return Status();
}

}  // namespace torus::tensorflow
