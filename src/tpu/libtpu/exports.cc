// libtpu.so: what it exports, and which engine it runs on.
//
// Loading the library does nothing: no thread, no handler, no file is touched. The first call of
// GetPjrtApi opens the engine: TORUS_ENGINE, or engine/xla_cpu.so beside this library.
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "tpu/device/compiler_identity.h"
#include "tpu/device/software_tpu.h"
#include "tpu/pjrt/engine.h"

namespace torus::tpu {
namespace {

constexpr char kEngineVariable[] = "TORUS_ENGINE";
constexpr char kEngineBeside[] = "engine/xla_cpu.so";

// The path that this library was loaded by.
std::filesystem::path OwnPath() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&OwnPath), &info) == 0) return {};
  return info.dli_fname;
}

// A framework may load the library by a link to it; the engine stands beside the link or the file.
std::string EnginePath() {
  const char* named = std::getenv(kEngineVariable);  // NOLINT(concurrency-mt-unsafe)
  if (named != nullptr && *named != '\0') return named;
  const auto own = OwnPath();
  const auto beside = own.parent_path() / kEngineBeside;
  std::error_code error;
  if (std::filesystem::exists(beside, error)) return beside;
  const auto file = std::filesystem::canonical(own, error);
  if (error) return beside;
  return file.parent_path() / kEngineBeside;
}

const PJRT_Api* MakeApi() {
  const auto path = EnginePath();
  // Of the file that is opened, not of one that takes its place meanwhile.
  const auto before = FileIdentity(path);
  auto engine = pjrt::Engine::Open(path);
  const auto own = OwnBuildId();
  const bool known = !own.empty() && !before.empty() && before == FileIdentity(path);
  return MakeSoftwareTpu(std::move(engine),
                         {.version = TORUS_VERSION,
                          .release_epoch = TORUS_RELEASE_EPOCH,
                          .program_cache = ProgramCacheOptions::FromEnvironment(),
                          .builds = known ? own + " on " + before : ""});
}

}  // namespace
}  // namespace torus::tpu

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api* const api = torus::tpu::MakeApi();
  return api;
}
