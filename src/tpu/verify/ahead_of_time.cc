// Calls of PJRT that need no client.
#include "tpu/verify/ahead_of_time.h"

#include <dlfcn.h>
#include <unistd.h>

#include <string_view>

namespace torus::tpu::verify {
namespace {

using pjrt::Ample;
using pjrt::MakeArgs;

Result<const PJRT_Api*> Load(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return NotFound("there is no such file");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return FailedPrecondition("{}", dlerror());
  using GetApi = const PJRT_Api* (*)();
  const auto get_api = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) return FailedPrecondition("it is no libtpu, for it has no GetPjrtApi");
  const PJRT_Api* api = get_api();
  if (api == nullptr) return FailedPrecondition("its GetPjrtApi returns null");
  const auto& version = api->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR || version.minor_version < pjrt::kOldestEngineMinor) {
    return FailedPrecondition("it has PJRT C API {}.{}, and {}.{} or newer is needed",
                              version.major_version, version.minor_version, PJRT_API_MAJOR,
                              pjrt::kOldestEngineMinor);
  }
  return api;
}

}  // namespace

Result<AheadOfTime> AheadOfTime::Open(const std::string& library, const std::string& topology) {
  TORUS_ASSIGN_OR_RETURN(const PJRT_Api* api, Load(library));
  auto engine = std::make_unique<pjrt::Engine>(api);
  auto initialize = MakeArgs<PJRT_Plugin_Initialize_Args>();
  TORUS_RETURN_IF_ERROR(engine->Take(engine->Call(pjrt::kPlugin_Initialize, &initialize)));
  Ample<PJRT_TopologyDescription_Create_Args> create;
  create->topology_name = topology.data();
  create->topology_name_size = topology.size();
  const auto slot = pjrt::kTopologyDescription_Create;
  TORUS_RETURN_IF_ERROR(engine->Take(engine->Call(slot, create.get())));
  return AheadOfTime(std::move(engine), create->topology);
}

Estimate AheadOfTime::Compile(const Request& request) {
  auto program = MakeArgs<PJRT_Program>();
  program.code = const_cast<char*>(request.code.data());
  program.code_size = request.code.size();
  program.format = request.format.data();
  program.format_size = request.format.size();
  Ample<PJRT_Compile_Args> compile;
  compile->topology = topology_;
  compile->program = &program;
  compile->compile_options = request.options.data();
  compile->compile_options_size = request.options.size();
  Estimate estimate;
  Status status = library_->Take(library_->Call(pjrt::kCompile, compile.get()));
  if (status.ok()) {
    status = Examine(compile->executable, estimate);
    auto destroy = MakeArgs<PJRT_Executable_Destroy_Args>();
    destroy.executable = compile->executable;
    library_->Take(library_->Call(pjrt::kExecutable_Destroy, &destroy)).ok();
  }
  if (!status.ok()) estimate.error = status.ToString();
  return estimate;
}

Status AheadOfTime::Examine(PJRT_Executable* executable, Estimate& estimate) {
  Ample<PJRT_Executable_GetCompiledMemoryStats_Args> memory;
  memory->executable = executable;
  const auto memory_slot = pjrt::kExecutable_GetCompiledMemoryStats;
  TORUS_RETURN_IF_ERROR(library_->Take(library_->Call(memory_slot, memory.get())));
  estimate.memory = memory->argument_size_in_bytes + memory->output_size_in_bytes -
                    memory->alias_size_in_bytes + memory->temp_size_in_bytes;
  auto cost = MakeArgs<PJRT_Executable_GetCostAnalysis_Args>();
  cost.executable = executable;
  TORUS_RETURN_IF_ERROR(library_->Take(library_->Call(pjrt::kExecutable_GetCostAnalysis, &cost)));
  for (size_t i = 0; i < cost.num_properties; ++i) {
    const PJRT_NamedValue& property = cost.properties[i];
    if (property.type != PJRT_NamedValue_kFloat) continue;
    const std::string_view name(property.name, property.name_size);
    if (name == "flops") estimate.flops = property.float_value;
    if (name == "bytes accessed") estimate.bytes = property.float_value;
    if (name == "optimal_seconds") estimate.seconds = property.float_value;
  }
  return Status();
}

}  // namespace torus::tpu::verify
