// Frameworks, told apart by the library that asks for a client.
#include "tpu/device/framework.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/mutex.h"

namespace torus::tpu {
namespace {

struct Known {
  std::string_view part;  // of a library's file or folder name
  std::string_view framework;
};

constexpr Known kFrameworks[] = {
    {"_XLAC", "PyTorch/XLA"}, {"torch_xla", "PyTorch/XLA"}, {"torch_tpu", "TorchTPU"},
    {"jaxlib", "JAX"},        {"tensorflow", "TensorFlow"},
};

struct Uses {
  Mutex mutex;
  std::map<const void*, ChipsUse> by_client TORUS_GUARDED_BY(mutex);
};

Uses& uses() {
  static Uses& uses = *new Uses;
  return uses;
}

bool Overlap(const ChipsUse& a, const ChipsUse& b) {
  return a.lock_file == b.lock_file && std::ranges::any_of(a.cores, [&b](int core) {
           return std::ranges::find(b.cores, core) != b.cores.end();
         });
}

}  // namespace

std::string LibraryAt(const void* code) {
  Dl_info info{};
  return dladdr(code, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string FrameworkOf(const std::string& library) {
  const std::filesystem::path path(library);
  const auto name = path.parent_path().filename().string() + "/" + path.filename().string();
  for (const auto& known : kFrameworks) {
    if (name.contains(known.part)) return std::string(known.framework);
  }
  return path.filename().string();
}

Status CheckFramework(const ChipsUse& use) {
  Uses& all = uses();
  const MutexLock lock(all.mutex);
  for (const auto& [client, other] : all.by_client) {
    if (other.library == use.library || !Overlap(use, other)) continue;
    const auto owner = FrameworkOf(other.library), asking = FrameworkOf(use.library);
    return Status(
        Code::kAborted,
        fmt::format("The TPU is already in use by {} in this process (pid {}, {}), so {} cannot "
                    "have it, too. Give one of them the CPU (JAX_PLATFORMS=cpu, PJRT_DEVICE=CPU) "
                    "or a process of its own; ALLOW_MULTIPLE_LIBTPU_LOAD=1 lets both share it.",
                    owner, getpid(), other.library, asking));
  }
  return Status();
}

void NoteFramework(const void* client, ChipsUse use) {
  Uses& all = uses();
  const MutexLock lock(all.mutex);
  all.by_client.insert_or_assign(client, std::move(use));
}

void ForgetFramework(const void* client) {
  Uses& all = uses();
  const MutexLock lock(all.mutex);
  all.by_client.erase(client);
}

}  // namespace torus::tpu
