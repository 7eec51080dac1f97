// The engine as a converter: options that stop it early, and the folder that it writes to.
#include "tpu/program/convert.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tpu/program/wire.h"

namespace torus::program {
namespace {

namespace fs = std::filesystem;
using protozero::pbf_writer;

// A folder of our own in memory, gone with this object.
class Folder {
 public:
  static Result<Folder> Make() {
    const char* temporary = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
    for (const char* parent : {"/dev/shm", temporary, "/tmp"}) {
      if (parent == nullptr || *parent == '\0') continue;
      auto path = std::string(parent) + "/torus-hlo-XXXXXX";
      if (mkdtemp(path.data()) != nullptr) return Folder(std::move(path));
    }
    return Internal(
        "Cannot make a folder for a program's HLO in /dev/shm, TMPDIR or /tmp ({}). Reading a "
        "program that host callbacks or the like are rewritten in needs one.",
        std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }

  Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Folder& operator=(Folder&&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

  // The file of it whose name has the part.
  Result<std::string> Find(std::string_view part) const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path_, error)) {
      if (entry.path().filename().native().contains(part)) return entry.path().native();
    }
    return NotFound("no file with {} in its name in {}", part, path_);
  }

 private:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

Result<std::string> ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) return Internal("Cannot read {}, which the engine wrote a program's HLO to.", path);
  return bytes;
}

// xla.CompileOptionsProto
constexpr protozero::pbf_tag_type kBuildOptions = 3, kOverrides = 7;
// xla.ExecutableBuildOptionsProto
constexpr protozero::pbf_tag_type kNumReplicas = 4, kNumPartitions = 5, kUseSpmd = 6,
                                  kUseAutoSpmd = 7, kDeviceAssignment = 9;

void AddOverride(pbf_writer& options, const char* name, const std::string* text) {
  constexpr protozero::pbf_tag_type kKey = 1, kValue = 2, kString = 1, kBool = 2;
  pbf_writer entry(options, kOverrides);
  entry.add_string(kKey, name);
  pbf_writer value(entry, kValue);
  if (text != nullptr) {
    value.add_string(kString, *text);
  } else {
    value.add_bool(kBool, true);
  }
}

// Lets the engine write the programs that it sees into the folder.
void AddDump(std::string& options, const std::string& folder) {
  pbf_writer writer(options);
  AddOverride(writer, "xla_dump_to", &folder);
  AddOverride(writer, "xla_dump_hlo_as_proto", nullptr);
}

}  // namespace

// The caller's options, but for two partitions without a partitioner: the engine checks that after
// it has the HLO and before it optimizes. A later scalar overrides an earlier one.
std::string ConversionOptions(std::string_view compile_options, const std::string& folder) {
  auto build = wire::Without(wire::FindBytes(compile_options, kBuildOptions).value_or(""),
                             kDeviceAssignment);
  pbf_writer building(build);
  building.add_int64(kNumReplicas, 1);
  building.add_int64(kNumPartitions, 2);
  building.add_bool(kUseSpmd, false);
  building.add_bool(kUseAutoSpmd, false);
  auto options = wire::Without(wire::Without(compile_options, kBuildOptions), kOverrides);
  pbf_writer(options).add_message(kBuildOptions, build);
  AddDump(options, folder);
  return options;
}

namespace {

// Compiles with options that write into the folder, and reads the file whose name has the part.
Result<HloModule> CompileAndRead(pjrt::Engine& engine, PJRT_Client* client, ProgramSource source,
                                 const std::string& options, const Folder& folder,
                                 std::string_view part) {
  auto program = pjrt::MakeArgs<PJRT_Program>();
  program.code = const_cast<char*>(source.code.data());
  program.code_size = source.code.size();
  program.format = source.format.data();
  program.format_size = source.format.size();
  pjrt::Ample<PJRT_Client_Compile_Args> args;
  args->client = client;
  args->program = &program;
  args->compile_options = options.data();
  args->compile_options_size = options.size();
  const Status status = engine.Take(engine.Call(pjrt::kClient_Compile, args.get()));
  if (status.ok()) {
    auto destroy = pjrt::MakeArgs<PJRT_LoadedExecutable_Destroy_Args>();
    destroy.executable = args->executable;
    engine.Take(engine.Call(pjrt::kLoadedExecutable_Destroy, &destroy)).ok();
  }
  const auto file = folder.Find(part);
  if (!file) return status.ok() ? Error(file.error()) : Error(status);
  TORUS_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(*file));
  return ReadHloDump(bytes);
}

Result<HloModule> Convert(pjrt::Engine& engine, PJRT_Client* client, ProgramSource source,
                          std::string_view compile_options) {
  TORUS_ASSIGN_OR_RETURN(const Folder folder, Folder::Make());
  const auto options = ConversionOptions(compile_options, folder.path());
  return CompileAndRead(engine, client, source, options, folder, "before_optimizations.hlo.pb");
}

// The module says for which devices the conversion was; they are not the caller's.
void ForgetDevices(HloModule& module) {
  constexpr protozero::pbf_tag_type kModuleDeviceAssignment = 15;
  module.others = wire::Without(module.others, kModuleDeviceAssignment);
}

}  // namespace

Result<HloModule> HloOf(pjrt::Engine& engine, PJRT_Client* client, ProgramSource source,
                        std::string_view compile_options) {
  if (source.format == "hlo") return ReadHlo(source.code);
  if (source.format != "mlir") {
    return Unimplemented("Torus does not read programs of the format '{}'.", source.format);
  }
  try {
    auto module = Convert(engine, client, source, compile_options);
    if (module) ForgetDevices(*module);
    return module;
  } catch (const protozero::exception& error) {
    return InvalidArgument("The compile options are no CompileOptionsProto: {}.", error.what());
  }
}

Result<HloModule> ShardedHlo(pjrt::Engine& engine, PJRT_Client* client, const HloModule& module,
                             std::string_view compile_options) {
  constexpr char kPass[] = "spmd-partitioning";
  TORUS_ASSIGN_OR_RETURN(const Folder folder, Folder::Make());
  auto options = wire::Without(compile_options, kOverrides);
  AddDump(options, folder.path());
  const std::string pass = kPass;
  {
    pbf_writer writer(options);
    AddOverride(writer, "xla_dump_hlo_pass_re", &pass);
  }
  const auto code = WriteHlo(module);
  return CompileAndRead(engine, client, {code, "hlo"}, options, folder, ".before_" + pass);
}

}  // namespace torus::program
