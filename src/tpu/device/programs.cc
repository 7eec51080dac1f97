// Programs: compiled with the options that the engine takes, or loaded, and forgotten.
#include <algorithm>

#include "base/mutex.h"
#include "tpu/device/cached_programs.h"
#include "tpu/device/compile_options.h"
#include "tpu/device/inspect_sharding.h"
#include "tpu/device/run_counter.h"
#include "tpu/device/state.h"
#include "tpu/device/verify.h"
#include "tpu/program/convert.h"
#include "tpu/program/rewrite.h"

namespace torus::tpu {
namespace {

using pjrt::Ample;
using pjrt::MakeArgs;
using pjrt::NewError;

// ---- What the engine tells of a program

// An executable's name and sizes. What the engine does not tell stays empty or zero.
void ReadExecutable(State& s, PJRT_Executable* executable, Program& program) {
  auto name = MakeArgs<PJRT_Executable_Name_Args>();
  name.executable = executable;
  if (s.engine.Take(s.engine.Call(pjrt::kExecutable_Name, &name)).ok()) {
    program.name.assign(name.executable_name, name.executable_name_size);
  }
  Ample<PJRT_Executable_GetCompiledMemoryStats_Args> stats;
  stats->executable = executable;
  const auto slot = pjrt::kExecutable_GetCompiledMemoryStats;
  if (s.engine.Take(s.engine.Call(slot, stats.get())).ok()) {
    program.output_bytes =
        std::max<int64_t>(stats->output_size_in_bytes - stats->alias_size_in_bytes, 0);
    program.temporary_bytes = std::max<int64_t>(stats->temp_size_in_bytes, 0);
  }
  program.host_bytes = program.run_bytes();
  if (program.client == nullptr) return;
  program.facts = ReadFacts(s, executable, *program.client);
  if (!program.facts) return;
  const Footprint& memory = program.facts->compiled.memory;
  program.output_bytes = memory.outputs - memory.aliased;
  program.temporary_bytes = memory.temporaries;
  program.traffic_bytes = static_cast<int64_t>(program.facts->compiled.cost.bytes);
  program.is_tiny = program.facts->compiled.cost.flops < kTinyFlops;
  program.meets = program.facts->meets;
}

Status ReadDevices(State& s, PJRT_LoadedExecutable* loaded, Program& program) {
  auto args = MakeArgs<PJRT_LoadedExecutable_AddressableDevices_Args>();
  args.executable = loaded;
  const auto slot = pjrt::kLoadedExecutable_AddressableDevices;
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(slot, &args)));
  for (size_t i = 0; i < args.num_addressable_devices; ++i) {
    const auto device = s.devices.Find(args.addressable_devices[i]);
    if (!device) return NotFound("a program's device is of no client that is open");
    program.devices.push_back(*device);
    program.client = (*device)->client;
  }
  return Status();
}

Result<std::unique_ptr<Program>> ReadProgram(State& s, PJRT_LoadedExecutable* loaded,
                                             Client* client) {
  auto program = std::make_unique<Program>();
  program->client = client;
  TORUS_RETURN_IF_ERROR(ReadDevices(s, loaded, *program));
  auto args = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
  args.loaded_executable = loaded;
  const auto slot = pjrt::kLoadedExecutable_GetExecutable;
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(slot, &args)));
  ReadExecutable(s, args.executable, *program);
  auto destroy = MakeArgs<PJRT_Executable_Destroy_Args>();
  destroy.executable = args.executable;
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kExecutable_Destroy, &destroy)));
  return program;
}

// ---- Compiling

// What upstream's compiler says of a program that no device of this kind can hold.
Status CheckCompiled(const Program& program) {
  if (program.client == nullptr) return Status();
  const int64_t limit = program.client->devices.front().hbm.limit();
  const int64_t total =
      program.facts ? program.facts->compiled.memory.total() : program.run_bytes();
  if (total <= limit) return Status();
  return ResourceExhausted(
      "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO "
      "temporaries ({}) exceeds available HBM ({}). HLO module: {}.{}",
      FormatBytes(total), FormatBytes(limit), program.name,
      program.Advise(total - limit));
}

// Keeps a fresh executable if it can ever run; destroys it otherwise. What it came from is as
// Program has it.
PJRT_Error* Accept(State& s, const PJRT_Client* client, PJRT_LoadedExecutable* loaded,
                   std::shared_ptr<const CompiledFrom> source,
                   std::shared_ptr<const ProgramCache::Entry> loaded_from = nullptr) {
  Program* program = FindProgram(s, loaded, s.clients.Find(client).value_or(nullptr));
  if (program != nullptr) {
    program->source = std::move(source);
    program->loaded_from = std::move(loaded_from);
  }
  const Status accepted = program == nullptr ? Status() : CheckCompiled(*program);
  if (program != nullptr && program->client != nullptr)
    program->client->counters->header().compiles.fetch_add(1, std::memory_order_relaxed);
  if (accepted.ok()) return nullptr;
  auto destroy = MakeArgs<PJRT_LoadedExecutable_Destroy_Args>();
  destroy.executable = loaded;
  s.engine.Take(LoadedExecutableDestroy(&destroy)).ok();
  return NewError(accepted);
}

// Calls with the options, `text` and `size` of the caller's struct, as the engine takes them.
template <typename Call>
PJRT_Error* WithEngineOptions(const char*& text, size_t& size, const Call& call) {
  const auto rewritten =
      WithoutTpuOptions(text == nullptr ? std::string_view() : std::string_view(text, size));
  if (!rewritten) return NewError(rewritten.error());
  if (!*rewritten) return call();
  const auto old_text = std::exchange(text, (*rewritten)->data());
  const auto old_size = std::exchange(size, (*rewritten)->size());
  PJRT_Error* error = call();
  text = old_text;
  size = old_size;
  return error;
}

// The program as the engine takes it, serialized HLO; none: as it came.
Result<std::optional<std::string>> RewriteProgram(State& s, const PJRT_Client_Compile_Args& args) {
  const std::string_view options(args.compile_options, args.compile_options_size);
  auto module =
      program::HloOf(s.engine, args.client, program::ProgramSource::Of(*args.program), options);
  // What cannot be read, the engine will say in its own words.
  if (!module) return std::nullopt;
  TORUS_ASSIGN_OR_RETURN(const bool changed, program::Rewrite(*module));
  TORUS_ASSIGN_OR_RETURN(const bool inspected,
                         InspectShardings(s.engine, args.client, *module, options));
  if (!changed && !inspected) return std::nullopt;
  return program::WriteHlo(*module);
}

PJRT_Error* CompileAs(State& s, PJRT_Client_Compile_Args* args, const std::string& hlo) {
  constexpr std::string_view kFormat = "hlo";
  auto program = MakeArgs<PJRT_Program>();
  program.code = const_cast<char*>(hlo.data());
  program.code_size = hlo.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  const auto* const own_program = std::exchange(args->program, &program);
  PJRT_Error* error = s.engine.Call(pjrt::kClient_Compile, args);
  args->program = own_program;
  return error;
}

// Compiles the program as it came, or rewritten where its bytes say that it needs to be.
PJRT_Error* CompileProgram(State& s, PJRT_Client_Compile_Args* args) {
  PJRT_Error* refused = nullptr;
  const bool readable = args->program != nullptr && s.engine.status().ok();
  if (!readable || !program::MayNeedRewrite({args->program->code, args->program->code_size})) {
    refused = s.engine.Call(pjrt::kClient_Compile, args);
    if (refused == nullptr || !readable) return refused;
  }
  const auto rewritten = RewriteProgram(s, *args);
  if (rewritten && !*rewritten) {
    return refused != nullptr ? refused : s.engine.Call(pjrt::kClient_Compile, args);
  }
  s.engine.Take(refused).ok();  // For what it was refused, the rewrite mends or says better.
  return rewritten ? CompileAs(s, args, **rewritten) : NewError(rewritten.error());
}

// Compiles the program, or loads what an earlier compilation of it gave.
PJRT_Error* CompileOrLoad(State& s, PJRT_Client_Compile_Args* args) {
  const auto key = CacheKey(s, *args);
  if (auto loaded = key ? LoadCached(s, args->client, *key) : std::nullopt) {
    args->executable = loaded->executable;
    return Accept(s, args->client, args->executable, CompiledFrom::Of(*args),
                  std::move(loaded->from));
  }
  if (PJRT_Error* error = CompileProgram(s, args)) return error;
  if (key) KeepCompiled(s, args->executable, *key);
  return Accept(s, args->client, args->executable, CompiledFrom::Of(*args));
}

// On one device, on several at once, or on each alone: as the client's framework runs replicas.
PJRT_Error* CompileForClient(State& s, PJRT_Client_Compile_Args* args) {
  const auto compile = [&s](PJRT_Client_Compile_Args* args) { return CompileOrLoad(s, args); };
  const auto client = s.clients.Find(args->client);
  if (!client || !(*client)->replicas_alone || args->program == nullptr) return compile(args);
  return CompileReplicas(s, **client, args, compile);
}

PJRT_Error* ClientCompile(PJRT_Client_Compile_Args* args) {
  State& s = state();
  PJRT_Error* error = WithEngineOptions(args->compile_options, args->compile_options_size,
                                        [&s, args] { return CompileForClient(s, args); });
  if (IsVerifying()) Verify(s, *args, error);
  return error;
}

// Compiles for a topology, without devices to load onto: by the client that it is of.
PJRT_Error* Compile(PJRT_Compile_Args* args) {
  State& s = state();
  const auto client = s.topologies.Find(args->topology);
  if (!client) {
    return WithEngineOptions(args->compile_options, args->compile_options_size,
                             [&s, args] { return s.engine.Call(pjrt::kCompile, args); });
  }
  Ample<PJRT_Client_Compile_Args> compile;
  compile->client = (*client)->handle;
  compile->program = args->program;
  compile->compile_options = args->compile_options;
  compile->compile_options_size = args->compile_options_size;
  if (PJRT_Error* error = ClientCompile(compile.get())) return error;
  auto get = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = compile->executable;
  if (PJRT_Error* error = GetExecutable(&get)) return error;
  args->executable = get.executable;
  s.unloaded.Insert(args->executable, compile->executable);
  return nullptr;
}

PJRT_Error* DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args* args) {
  State& s = state();
  const auto call = [&s, args] {
    return s.engine.Call(pjrt::kExecutable_DeserializeAndLoad, args);
  };
  PJRT_Error* error =
      TORUS_PJRT_HAS(args, overridden_serialized_compile_options_size)
          ? WithEngineOptions(args->overridden_serialized_compile_options,
                              args->overridden_serialized_compile_options_size, call)
          : call();
  if (error != nullptr) return error;
  std::string bytes(args->serialized_executable, args->serialized_executable_size);
  return Accept(s, args->client, args->loaded_executable, nullptr,
                std::make_shared<const ProgramCache::Entry>("", std::move(bytes)));
}

}  // namespace

Program* FindProgram(State& s, PJRT_LoadedExecutable* loaded, Client* client) {
  if (const auto known = s.programs.Find(loaded)) return *known;
  static Mutex& reading = *new Mutex;
  const MutexLock lock(reading);
  if (const auto known = s.programs.Find(loaded)) return *known;
  auto program = ReadProgram(s, loaded, client);
  if (!program) return nullptr;
  s.programs.Insert(loaded, program->get());
  return program->release();
}

PJRT_Error* LoadedExecutableDestroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  State& s = state();
  if (const auto program = s.programs.Take(args->executable)) {
    DestroyTracedSelf(s, **program);
    delete *program;
  }
  return s.engine.Call(pjrt::kLoadedExecutable_Destroy, args);
}

void ReleasePrograms(const Client* client) {
  State& s = state();
  std::vector<Program*> programs;
  s.programs.EraseIf([&](Program* program) {
    if (program->client == client) programs.push_back(program);
    return false;
  });
  for (Program* program : programs) DestroyTracedSelf(s, *program);
}

void ForgetPrograms(const Client* client) {
  state().programs.EraseIf([client](Program* program) {
    if (program->client != client) return false;
    delete program;
    return true;
  });
}

void OverrideProgramFunctions(pjrt::Table& table) {
  Override(table, pjrt::kClient_Compile, ClientCompile);
  Override(table, pjrt::kCompile, Compile);
  Override(table, pjrt::kExecutable_DeserializeAndLoad, DeserializeAndLoad);
  Override(table, pjrt::kLoadedExecutable_Destroy, LoadedExecutableDestroy);
}

}  // namespace torus::tpu
