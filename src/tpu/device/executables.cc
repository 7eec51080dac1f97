// Each PJRT_Executable that a framework holds is known by its address, with the facts of the loaded
// executable that it is of.
#include "tpu/device/executables.h"

#include <algorithm>
#include <span>

#include "tpu/device/state.h"
#include "tpu/program/collectives.h"
#include "tpu/program/rewrite.h"

namespace torus::tpu {
namespace {

using pjrt::MakeArgs;

// The serialized program after the engine's optimizations; none where it has none to give.
std::optional<std::string> OptimizedProgram(State& s, PJRT_Executable* executable) {
  auto program = MakeArgs<PJRT_Program>();
  auto args = MakeArgs<PJRT_Executable_OptimizedProgram_Args>();
  args.executable = executable;
  args.program = &program;
  const auto slot = pjrt::kExecutable_OptimizedProgram;
  if (!s.engine.Take(s.engine.Call(slot, &args)).ok()) return std::nullopt;  // its size
  std::string code(program.code_size, '\0');
  program.code = code.data();
  if (!s.engine.Take(s.engine.Call(slot, &args)).ok()) return std::nullopt;
  return code;
}

void AddProperty(Facts& facts, std::string name, double value) {
  facts.names.push_back(std::move(name));
  PJRT_NamedValue property{};
  property.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  property.type = PJRT_NamedValue_kFloat;
  property.float_value = static_cast<float>(value);
  property.value_size = 1;
  facts.properties.push_back(property);
}

// XLA's names.
void AddProperties(Facts& facts) {
  const auto& cost = facts.compiled.cost;
  AddProperty(facts, "flops", cost.flops);
  AddProperty(facts, "transcendentals", cost.transcendentals);
  AddProperty(facts, "bytes accessed", cost.bytes);
  AddProperty(facts, "bytes accessedout{}", cost.output_bytes);
  for (size_t i = 0; i < cost.operand_bytes.size(); ++i) {
    AddProperty(facts, fmt::format("bytes accessed{}{{}}", i), cost.operand_bytes[i]);
  }
  AddProperty(facts, "optimal_seconds", cost.seconds);
  for (size_t i = 0; i < facts.names.size(); ++i) {
    facts.properties[i].name = facts.names[i].data();
    facts.properties[i].name_size = facts.names[i].size();
  }
}

bool CallsOneOf(const program::HloModule& module, std::span<const std::string_view> targets) {
  const auto calls = [targets](const program::HloInstruction& instruction) {
    return std::ranges::find(targets, instruction.custom_call_target) != targets.end();
  };
  return std::ranges::any_of(module.computations, [&](const program::HloComputation& computation) {
    return std::ranges::any_of(computation.instructions, calls);
  });
}

void FindCalls(const program::HloModule& module, Facts& facts) {
  constexpr std::string_view kOfHost[] = {program::kSendTarget, program::kRecvTarget};
  constexpr std::string_view kOfOthers[] = {program::kCollectiveTarget, program::kReplicaTarget};
  facts.meets = CallsOneOf(module, kOfOthers);
  facts.asks_for_run = facts.meets || CallsOneOf(module, kOfHost);
}

PJRT_Error* ExecutableDestroy(PJRT_Executable_Destroy_Args* args) {
  State& s = state();
  s.executables.Take(args->executable);
  s.loaded_from.Take(args->executable);
  const auto loaded = s.unloaded.Take(args->executable);
  PJRT_Error* error = s.engine.Call(pjrt::kExecutable_Destroy, args);
  if (loaded) {
    auto destroy = MakeArgs<PJRT_LoadedExecutable_Destroy_Args>();
    destroy.executable = *loaded;
    s.engine.Take(LoadedExecutableDestroy(&destroy)).ok();
  }
  return error;
}

PJRT_Error* GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  State& s = state();
  const auto slot = pjrt::kExecutable_GetCompiledMemoryStats;
  if (PJRT_Error* error = s.engine.Call(slot, args)) return error;
  const auto facts = s.executables.Find(args->executable);
  if (!facts) return nullptr;
  const Footprint& memory = (*facts)->compiled.memory;
  args->argument_size_in_bytes = memory.arguments;
  args->output_size_in_bytes = memory.outputs;
  args->alias_size_in_bytes = memory.aliased;
  args->temp_size_in_bytes = memory.temporaries;
  return nullptr;
}

PJRT_Error* GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args* args) {
  State& s = state();
  const auto facts = s.executables.Find(args->executable);
  if (!facts) return s.engine.Call(pjrt::kExecutable_GetCostAnalysis, args);
  args->properties = (*facts)->properties.data();
  args->num_properties = (*facts)->properties.size();
  return nullptr;
}

// A fingerprint is that of the compilation, also where its result was kept and loaded.

PJRT_Error* Fingerprint(PJRT_Executable_Fingerprint_Args* args) {
  State& s = state();
  const auto from = s.loaded_from.Find(args->executable);
  if (!from || (*from)->fingerprint.empty()) {
    return s.engine.Call(pjrt::kExecutable_Fingerprint, args);
  }
  args->executable_fingerprint = (*from)->fingerprint.data();
  args->executable_fingerprint_size = (*from)->fingerprint.size();
  return nullptr;
}

PJRT_Error* LoadedFingerprint(PJRT_LoadedExecutable_Fingerprint_Args* args) {
  State& s = state();
  const auto program = s.programs.Find(args->executable);
  const auto from = program ? (*program)->loaded_from : nullptr;
  if (from == nullptr || from->fingerprint.empty()) {
    return s.engine.Call(pjrt::kLoadedExecutable_Fingerprint, args);
  }
  args->executable_fingerprint = from->fingerprint.data();
  args->executable_fingerprint_size = from->fingerprint.size();
  return nullptr;
}

// What was loaded is serialized as it came: the engine would leave out its code, and what is loaded
// from that does not run.
PJRT_Error* Serialize(PJRT_Executable_Serialize_Args* args) {
  State& s = state();
  const auto from = s.loaded_from.Find(args->executable);
  if (!from) return s.engine.Call(pjrt::kExecutable_Serialize, args);
  using Owner = std::shared_ptr<const ProgramCache::Entry>;
  args->serialized_bytes = (*from)->executable.data();
  args->serialized_bytes_size = (*from)->executable.size();
  args->serialized_executable = reinterpret_cast<PJRT_SerializedExecutable*>(new Owner(*from));
  args->serialized_executable_deleter = [](PJRT_SerializedExecutable* owner) {
    delete reinterpret_cast<Owner*>(owner);
  };
  return nullptr;
}

}  // namespace

std::shared_ptr<const Facts> ReadFacts(State& s, PJRT_Executable* executable,
                                       const Client& client) {
  const auto code = OptimizedProgram(s, executable);
  if (!code) return nullptr;
  const auto module = program::ReadHloDump(*code);  // HloModuleProtoWithConfig has it in field 1
  if (!module) return nullptr;
  const auto& generation = client.slice.generation();
  auto facts = std::make_shared<Facts>();
  facts->compiled = Examine(*module, generation);
  AddProperties(*facts);
  FindCalls(*module, *facts);
  return facts;
}

std::optional<std::string> OptimizedModule(State& s, PJRT_LoadedExecutable* loaded) {
  auto get = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = loaded;
  const auto slot = pjrt::kLoadedExecutable_GetExecutable;
  if (!s.engine.Take(s.engine.Call(slot, &get)).ok()) return std::nullopt;
  const auto code = OptimizedProgram(s, get.executable);
  auto destroy = MakeArgs<PJRT_Executable_Destroy_Args>();
  destroy.executable = get.executable;
  s.engine.Take(s.engine.Call(pjrt::kExecutable_Destroy, &destroy)).ok();
  if (!code) return std::nullopt;
  const auto module = program::ReadHloDump(*code);
  if (!module) return std::nullopt;
  return program::WriteHlo(*module);
}

PJRT_Error* GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  State& s = state();
  const auto slot = pjrt::kLoadedExecutable_GetExecutable;
  if (PJRT_Error* error = s.engine.Call(slot, args)) return error;
  const auto program = s.programs.Find(args->loaded_executable);
  if (program && (*program)->facts) s.executables.Insert(args->executable, (*program)->facts);
  if (program && (*program)->loaded_from) {
    s.loaded_from.Insert(args->executable, (*program)->loaded_from);
  }
  return nullptr;
}

void OverrideExecutableFunctions(pjrt::Table& table) {
  Override(table, pjrt::kLoadedExecutable_GetExecutable, GetExecutable);
  Override(table, pjrt::kExecutable_Destroy, ExecutableDestroy);
  Override(table, pjrt::kExecutable_GetCompiledMemoryStats, GetCompiledMemoryStats);
  Override(table, pjrt::kExecutable_GetCostAnalysis, GetCostAnalysis);
  Override(table, pjrt::kExecutable_Fingerprint, Fingerprint);
  Override(table, pjrt::kExecutable_Serialize, Serialize);
  Override(table, pjrt::kLoadedExecutable_Fingerprint, LoadedFingerprint);
}

}  // namespace torus::tpu
