// Programs: compiled with the options that the engine takes, run where there is memory for them.
#include <algorithm>
#include <span>

#include "base/mutex.h"
#include "tpu/device/cached_programs.h"
#include "tpu/device/compile_options.h"
#include "tpu/device/host_callbacks.h"
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

// The program of a loaded executable, read when it is first seen; null where it cannot be read.
// `client`: whose it is, where known; one for any device does not tell.
Program* FindProgram(State& s, PJRT_LoadedExecutable* loaded, Client* client = nullptr) {
  if (const auto known = s.programs.Find(loaded)) return *known;
  static Mutex& reading = *new Mutex;
  const MutexLock lock(reading);
  if (const auto known = s.programs.Find(loaded)) return *known;
  auto program = ReadProgram(s, loaded, client);
  if (!program) return nullptr;
  s.programs.Insert(loaded, program->get());
  return program->release();
}

// ---- Compiling

// What upstream's compiler says of a program that no device of this kind can hold.
Status CheckCompiled(const Program& program) {
  if (program.client == nullptr) return Status();
  const int64_t limit = program.client->devices.front().hbm.limit();
  const int64_t total =
      program.facts ? program.facts->compiled.memory.total() : program.run_bytes();
  if (total <= limit) return Status();
  const int64_t fixed = program.facts ? program.facts->compiled.advice.fixed : 0;
  return ResourceExhausted(
      "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO "
      "temporaries ({}) exceeds available HBM ({}). HLO module: {}.{}",
      FormatBytes(total), FormatBytes(limit), program.name,
      program.Advise(total - fixed, limit - fixed));
}

// Keeps a fresh executable if it can ever run; destroys it otherwise. What it came from, and the
// fingerprint, are as Program has them.
PJRT_Error* Accept(State& s, const PJRT_Client* client, PJRT_LoadedExecutable* loaded,
                   std::shared_ptr<const CompiledFrom> source,
                   std::shared_ptr<const std::string> fingerprint = nullptr) {
  Program* program = FindProgram(s, loaded, s.clients.Find(client).value_or(nullptr));
  if (program != nullptr) {
    program->source = std::move(source);
    program->fingerprint = std::move(fingerprint);
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
                  std::move(loaded->fingerprint));
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
  return error != nullptr ? error : Accept(s, args->client, args->loaded_executable, nullptr);
}

// ---- Running

// Where a run takes place: on one named device, or on each of the program's.
class Run {
 public:
  Run(State& s, Program& program, PJRT_LoadedExecutable_Execute_Args& args)
      : s_(s), program_(program), args_(args) {
    if (TORUS_PJRT_HAS(&args, execute_device) && args.execute_device != nullptr) {
      const auto device = s.devices.Find(args.execute_device);
      one_ = device ? *device : nullptr;
    }
    client_ = one_ != nullptr ? one_->client : program.client;
  }

  // Whether it is known where it runs, so that it can be accounted for.
  bool has_place() const { return client_ != nullptr; }

  // The device that the caller names; null where the program runs on each of its own.
  Device* only_device() const { return one_; }

  // In the order of the argument lists.
  std::span<Device* const> places() const {
    if (one_ != nullptr) return {&one_, 1};
    return std::span(program_.devices).first(count());
  }
  std::vector<Device*> devices() const {
    std::vector<Device*> devices;
    for (size_t d = 0; d < count(); ++d) devices.push_back(&device(d));
    return devices;
  }

  // RESOURCE_EXHAUSTED where a device or the host has no room for outputs and temporaries.
  Status CheckMemory() const {
    const int64_t bytes = program_.run_bytes();
    for (size_t d = 0; d < count(); ++d) {
      const Hbm& hbm = device(d).hbm;
      if (!hbm.Fits(bytes)) return NoRoom(hbm);
    }
    return client_->host->Check(total_bytes(), program_.name.c_str());
  }

  // Books what the run made and strikes what it took over.
  void Book() {
    const OutputPlan* plan = program_.plan.load(std::memory_order_acquire);
    if (plan == nullptr) plan = LearnOutputs();
    StrikeDonated();
    if (plan == nullptr) return;
    for (size_t d = 0; d < count(); ++d) {
      Hbm& hbm = device(d).hbm;
      for (size_t o = 0; o < plan->outputs.size(); ++o) {
        if (!plan->outputs[o].in_hbm) continue;
        s_.buffers.Insert(args_.output_lists[d][o],
                          Buffer{client_, &hbm, plan->outputs[o].bytes, 0});
      }
      if (plan->hbm_count > 0) hbm.Add(plan->hbm_bytes, plan->hbm_count, plan->hbm_largest);
      if (program_.temporary_bytes > 0) hbm.NotePeak(program_.temporary_bytes);
    }
    if (total_bytes() >= HostMemory::kLookEvery && !plan->outputs.empty()) {
      PromiseUntilReady(args_.output_lists[0][0], client_->host, total_bytes());
    }
  }

 private:
  size_t count() const {
    return one_ != nullptr ? 1 : std::min(args_.num_devices, program_.devices.size());
  }
  Device& device(size_t d) const { return one_ != nullptr ? *one_ : *program_.devices[d]; }
  int64_t total_bytes() const { return program_.host_bytes * static_cast<int64_t>(count()); }

  Status NoRoom(const Hbm& hbm) const {
    const auto free = FormatBytes(std::max<int64_t>(hbm.free(), 0));
    return ResourceExhausted(
        "Error loading program '{}': Ran out of memory on HBM: Attempting to reserve {} at the "
        "bottom of memory. That was not possible. There are {} free, 0B reserved, and {} "
        "reservable. ({}){}",
        program_.name, FormatBytes(program_.run_bytes()), free, free, hbm.name(),
        program_.Advise(program_.run_bytes(), hbm.free()));
  }

  // The sizes and places of a first run's outputs. Null where the engine does not tell them all.
  const OutputPlan* LearnOutputs() {
    const MutexLock lock(program_.learning);
    if (const OutputPlan* plan = program_.plan.load(std::memory_order_relaxed)) return plan;
    const auto outputs = CountOutputs();
    if (!outputs) return nullptr;
    auto plan = std::make_unique<OutputPlan>();
    for (size_t o = 0; count() > 0 && o < *outputs; ++o) {
      const auto output = Describe(args_.output_lists[0][o]);
      if (!output) return nullptr;
      plan->outputs.push_back(*output);
      if (!output->in_hbm) continue;
      plan->hbm_bytes += output->bytes;
      plan->hbm_count += 1;
      plan->hbm_largest = std::max(plan->hbm_largest, output->bytes);
    }
    program_.plan.store(plan.get(), std::memory_order_release);
    return plan.release();
  }

  std::optional<size_t> CountOutputs() const {
    auto get = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
    get.loaded_executable = args_.executable;
    const auto slot = pjrt::kLoadedExecutable_GetExecutable;
    if (!s_.engine.Take(s_.engine.Call(slot, &get)).ok()) return std::nullopt;
    auto outputs = MakeArgs<PJRT_Executable_NumOutputs_Args>();
    auto destroy = MakeArgs<PJRT_Executable_Destroy_Args>();
    outputs.executable = destroy.executable = get.executable;
    const bool known = s_.engine.Take(s_.engine.Call(pjrt::kExecutable_NumOutputs, &outputs)).ok();
    s_.engine.Take(s_.engine.Call(pjrt::kExecutable_Destroy, &destroy)).ok();
    return known ? std::optional(outputs.num_outputs) : std::nullopt;
  }

  std::optional<OutputPlan::Output> Describe(PJRT_Buffer* buffer) const {
    auto memory = MakeArgs<PJRT_Buffer_Memory_Args>();
    memory.buffer = buffer;
    if (!s_.engine.Take(s_.engine.Call(pjrt::kBuffer_Memory, &memory)).ok()) return std::nullopt;
    const auto place = s_.memories.Find(memory.memory);
    if (!place) return std::nullopt;
    return OutputPlan::Output{SizeOfBuffer(*place, buffer).hbm, place->hbm != nullptr};
  }

  // Which arguments a program takes over shows after a run in which the caller let it take all.
  void StrikeDonated() {
    const auto* donated = program_.donated.load(std::memory_order_acquire);
    if (donated == nullptr) return LearnDonated();
    for (size_t d = 0; d < args_.num_devices; ++d) {
      for (const size_t a : *donated) {
        if (MayTake(a)) StrikeBuffer(args_.argument_lists[d][a]);
      }
    }
  }

  void LearnDonated() {
    auto donated = std::make_unique<std::vector<size_t>>();
    for (size_t a = 0; a < args_.num_args; ++a) {
      bool taken = false;
      for (size_t d = 0; d < args_.num_devices; ++d) {
        PJRT_Buffer* buffer = args_.argument_lists[d][a];
        if (!IsDeleted(buffer)) continue;
        taken = true;
        StrikeBuffer(buffer);
      }
      if (taken) donated->push_back(a);
    }
    const MutexLock lock(program_.learning);
    if (Kept().empty() && program_.donated.load() == nullptr) {
      program_.donated.store(donated.release());
    }
  }

  // Arguments that the caller keeps in this run, whatever the program takes over otherwise.
  std::span<const int64_t> Kept() const {
    const PJRT_ExecuteOptions* options = args_.options;
    if (options == nullptr || !TORUS_PJRT_HAS(options, num_non_donatable_input_indices)) return {};
    return {options->non_donatable_input_indices, options->num_non_donatable_input_indices};
  }

  bool MayTake(size_t argument) const {
    return std::ranges::find(Kept(), static_cast<int64_t>(argument)) == Kept().end();
  }

  bool IsDeleted(PJRT_Buffer* buffer) const {
    auto deleted = MakeArgs<PJRT_Buffer_IsDeleted_Args>();
    deleted.buffer = buffer;
    return s_.engine.Take(s_.engine.Call(pjrt::kBuffer_IsDeleted, &deleted)).ok() &&
           deleted.is_deleted;
  }

  State& s_;
  Program& program_;
  PJRT_LoadedExecutable_Execute_Args& args_;
  Device* one_ = nullptr;     // the named device
  Client* client_ = nullptr;  // whose devices they are
};

// The engine refuses options that are shorter than its own; an older framework's are.
PJRT_Error* CallEngine(State& s, PJRT_LoadedExecutable_Execute_Args* args) {
  const auto slot = pjrt::kLoadedExecutable_Execute;
  if (args->options == nullptr || args->options->struct_size >= sizeof(*args->options)) {
    return s.engine.Call(slot, args);
  }
  Ample<PJRT_ExecuteOptions> options(args->options);
  auto* const own = std::exchange(args->options, options.get());
  PJRT_Error* error = s.engine.Call(slot, args);
  args->options = own;
  return error;
}

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  State& s = state();
  Program* program = FindProgram(s, args->executable);
  if (program == nullptr) return CallEngine(s, args);
  Run run(s, *program, *args);
  if (!run.has_place()) return CallEngine(s, args);
  if (Status room = run.CheckMemory(); !room.ok()) return NewError(room);
  RunCounter counter(*program, run.places(), *args);
  PJRT_Error* error = nullptr;
  if (program->meets && run.only_device() != nullptr) {
    error = ExecuteWithContext(s, args, run.devices(), nullptr, NextLaunch(*run.only_device()));
  } else if (IsTracing()) {
    error = ExecuteTraced(s, *program, args, run.devices());
  } else if (NeedsContext(*program, args->options)) {
    error = ExecuteWithContext(s, args, run.devices());
  } else {
    error = CallEngine(s, args);
  }
  counter.Taken(error == nullptr);
  if (error != nullptr) return error;
  run.Book();
  return nullptr;
}

}  // namespace

PJRT_Error* ExecuteUntraced(State& s, const Program& program,
                            PJRT_LoadedExecutable_Execute_Args* args,
                            const std::vector<Device*>& devices) {
  return NeedsContext(program, args->options) ? ExecuteWithContext(s, args, devices)
                                              : CallEngine(s, args);
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
  Override(table, pjrt::kLoadedExecutable_Execute, Execute);
  Override(table, pjrt::kLoadedExecutable_Destroy, LoadedExecutableDestroy);
}

}  // namespace torus::tpu
