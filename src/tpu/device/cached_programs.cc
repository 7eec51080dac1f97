// Keys are lists of parts, each behind its size, so that no two lists give one key.
#include "tpu/device/cached_programs.h"

#include "tpu/device/compile_options.h"
#include "tpu/device/compiler_identity.h"
#include "tpu/pjrt/extensions.h"

namespace torus::tpu {
namespace {

using pjrt::MakeArgs;

void Append(std::string& key, std::string_view part) {
  const uint64_t size = part.size();
  key.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(part);
}

std::string_view View(const char* data, size_t size) {
  return data == nullptr ? std::string_view() : std::string_view(data, size);
}

// XLA_FLAGS is flags, as XLA tells them: white space may come first (PyTorch/XLA writes a space).
// Else it names a file that has them.
bool NamesFlagsFile(std::string_view environment) {
  constexpr std::string_view kFlags = "XLA_FLAGS=";
  if (!environment.starts_with(kFlags)) return false;
  const auto first = environment.find_first_not_of(" \t\r\n", kFlags.size());
  return first == environment.npos || environment[first] != '-';
}

// Whether a compilation has no other effect, and reads no file. A program may itself call functions
// of the framework while it is compiled.
bool OnlyCompiles(std::string_view environment, std::string_view options, std::string_view code) {
  if (environment.contains("dump") || options.contains("dump")) return false;
  if (code.contains("InspectSharding") || code.contains("CustomSPMDPartitioning")) return false;
  return !NamesFlagsFile(environment);
}

std::string FingerprintOf(State& s, PJRT_Executable* executable) {
  auto args = MakeArgs<PJRT_Executable_Fingerprint_Args>();
  args.executable = executable;
  if (!s.engine.Take(s.engine.Call(pjrt::kExecutable_Fingerprint, &args)).ok()) return {};
  return std::string(View(args.executable_fingerprint, args.executable_fingerprint_size));
}

// Empty where the engine cannot.
std::string Serialize(State& s, PJRT_Executable* executable) {
  auto args = MakeArgs<PJRT_Executable_Serialize_Args>();
  args.executable = executable;
  if (!s.engine.Take(s.engine.Call(pjrt::kExecutable_Serialize, &args)).ok()) return {};
  std::string bytes(View(args.serialized_bytes, args.serialized_bytes_size));
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

// Whether the caller says no more than the struct holds and, as JAX does, what traces the call.
bool HasOnlyTrace(const PJRT_Extension_Base* extension) {
  for (; extension != nullptr; extension = extension->next) {
    if (pjrt::TypeOf(*extension) != PJRT_Extension_Type_Profiler) return false;
  }
  return true;
}

const std::string& ThisCpu() {
  static const auto& cpu = *new std::string(CpuIdentity());
  return cpu;
}

}  // namespace

std::optional<std::string> CacheKey(State& s, const PJRT_Client_Compile_Args& args) {
  const auto client = s.clients.Find(args.client);
  const auto options = View(args.compile_options, args.compile_options_size);
  if (!s.program_cache.on() || s.options.builds.empty() || !client) return std::nullopt;
  if (!HasOnlyTrace(args.extension_start) || args.program == nullptr) return std::nullopt;
  if (!s.program_cache.Takes(args.program->code_size)) return std::nullopt;
  // The engine read its flags once, and they have changed since.
  const auto environment = CompilerEnvironment();
  const auto code = View(args.program->code, args.program->code_size);
  if (environment != s.environment || !OnlyCompiles(environment, options, code)) {
    return std::nullopt;
  }

  std::string key;
  Append(key, s.options.builds);
  Append(key, ThisCpu());
  Append(key, environment);
  Append(key, (*client)->platform_version);
  Append(key, fmt::format("{} devices", (*client)->devices.size()));
  Append(key, View(args.program->format, args.program->format_size));
  Append(key, code);
  Append(key, ComparableOptions(options));
  return key;
}

std::optional<LoadedProgram> LoadCached(State& s, PJRT_Client* client, const std::string& key) {
  auto entry = s.program_cache.Find(key);
  if (!entry) return std::nullopt;
  auto args = MakeArgs<PJRT_Executable_DeserializeAndLoad_Args>();
  args.client = client;
  args.serialized_executable = entry->executable.data();
  args.serialized_executable_size = entry->executable.size();
  if (!s.engine.Take(s.engine.Call(pjrt::kExecutable_DeserializeAndLoad, &args)).ok()) {
    s.program_cache.Remove(key);
    return std::nullopt;
  }
  return LoadedProgram{args.loaded_executable,
                       std::make_shared<const ProgramCache::Entry>(*std::move(entry))};
}

void KeepCompiled(State& s, PJRT_LoadedExecutable* executable, const std::string& key) {
  auto get = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = executable;
  const auto slot = pjrt::kLoadedExecutable_GetExecutable;
  if (!s.engine.Take(s.engine.Call(slot, &get)).ok()) return;
  const ProgramCache::Entry entry{FingerprintOf(s, get.executable), Serialize(s, get.executable)};
  auto destroy = MakeArgs<PJRT_Executable_Destroy_Args>();
  destroy.executable = get.executable;
  s.engine.Take(s.engine.Call(pjrt::kExecutable_Destroy, &destroy)).ok();
  if (!entry.executable.empty()) s.program_cache.Insert(key, entry);
}

}  // namespace torus::tpu
