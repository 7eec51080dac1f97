// The second self of a program, the call that a mark is, and runs that record.
#include "tpu/device/traced_runs.h"

#include <utility>

#include "tpu/device/compile_options.h"
#include "tpu/device/compiled.h"
#include "tpu/device/host_callbacks.h"
#include "tpu/device/state.h"
#include "tpu/pjrt/ffi.h"
#include "tpu/pjrt/profiler.h"
#include "tpu/pjrt/xla_transform.h"
#include "tpu/program/convert.h"
#include "tpu/program/describe.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/source.h"
#include "tpu/program/wire.h"

namespace ffi = torus::pjrt::ffi;

namespace torus::tpu {
namespace {

using pjrt::Ample;
using pjrt::MakeArgs;
using program::HloModule;

// ---- Making the second self

// What tells the hook that a program is meant, among others that compile at the same time.
constexpr std::string_view kTracedAttribute = "torus.traced";
constexpr protozero::pbf_tag_type kFrontendAttributes = 19;  // of xla.HloModuleProto

void WriteAttributes(const std::map<std::string, std::string>& attributes, HloModule& module) {
  module.others = program::wire::Without(module.others, kFrontendAttributes);
  if (attributes.empty()) return;
  protozero::pbf_writer others(module.others);
  protozero::pbf_writer message(others, kFrontendAttributes);
  for (const auto& [key, value] : attributes) {
    protozero::pbf_writer entry(message, 1);
    entry.add_string(1, key);
    entry.add_string(2, value);
  }
}

// The same for the same program, in any process.
int64_t Fingerprint(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return static_cast<int64_t>(hash >> 1);  // XProf takes ids as signed numbers
}

std::string Source(const program::SourceOf& source) {
  return source.file.empty() ? std::string() : fmt::format("{}:{}", source.file, source.line);
}

void Describe(const HloModule& module, const program::Marks& marks, TracedProgram& traced) {
  auto costs = program::CostsOf(module, RooflineOf(*traced.generation));
  for (const auto& [computation_id, instruction_id] : marks.operations) {
    const auto& computation = *module.Find(computation_id);
    const auto& instruction = *computation.Find(instruction_id);
    const auto source = program::FindSource(module, instruction);
    const auto& cost = costs[instruction_id];
    traced.operations.push_back({.name = instruction.name,
                                 .text = program::TextOf(computation, instruction),
                                 .category = program::CategoryOf(module, instruction),
                                 .framework = source.op_name,
                                 .source = Source(source),
                                 .flops = static_cast<int64_t>(cost.flops),
                                 .bytes_read = static_cast<int64_t>(cost.bytes - cost.output_bytes),
                                 .bytes_written = static_cast<int64_t>(cost.output_bytes)});
  }
  traced.marks = marks.marks;
}

// Notes the program as the engine hands it over, and gives it back with marks.
Result<std::string> MarkModule(HloModule module, TracedProgram& traced) {
  auto attributes = program::FrontendAttributesOf(module);
  attributes.erase(std::string(kTracedAttribute));
  WriteAttributes(attributes, module);
  module.id = 0;  // a number of this process
  traced.hlo = program::WriteHlo(module);
  HloModule marked = module;
  TORUS_ASSIGN_OR_RETURN(const auto marks, program::AddMarks(marked));
  Describe(module, marks, traced);
  return program::WriteHlo(marked);
}

Status CompileHlo(State& s, PJRT_Client* client, const std::string& hlo, std::string_view options,
                  PJRT_LoadedExecutable*& loaded) {
  constexpr std::string_view kFormat = "hlo";
  TORUS_ASSIGN_OR_RETURN(const auto rewritten, WithoutTpuOptions(options));
  if (rewritten) options = *rewritten;
  auto program = MakeArgs<PJRT_Program>();
  program.code = const_cast<char*>(hlo.data());
  program.code_size = hlo.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  Ample<PJRT_Client_Compile_Args> args;
  args->client = client;
  args->program = &program;
  args->compile_options = options.data();
  args->compile_options_size = options.size();
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kClient_Compile, args.get())));
  loaded = args->executable;
  return Status();
}

void DestroyLoaded(State& s, PJRT_LoadedExecutable* loaded) {
  auto destroy = MakeArgs<PJRT_LoadedExecutable_Destroy_Args>();
  destroy.executable = loaded;
  s.engine.Take(s.engine.Call(pjrt::kLoadedExecutable_Destroy, &destroy)).ok();
}

// The program as it was compiled first, with marks. Fills `traced`.
Result<PJRT_LoadedExecutable*> CompileWithMarks(State& s, const Program& program,
                                                TracedProgram& traced) {
  if (program.source == nullptr) {
    return Unimplemented("it came serialized, from a compilation cache or an export");
  }
  const auto& [code, format, options] = *program.source;
  PJRT_Client* client = program.client->handle;
  TORUS_ASSIGN_OR_RETURN(HloModule module,
                         program::HloOf(s.engine, client, {code, format}, options));
  if (const auto rewritten = program::Rewrite(module); !rewritten) return Error(rewritten.error());
  auto attributes = program::FrontendAttributesOf(module);
  attributes.emplace(kTracedAttribute, "1");
  WriteAttributes(attributes, module);

  Status marked = Internal("the engine did not hand it over");
  const auto transform = [&](std::string_view bytes) -> std::optional<std::string> {
    auto shown = program::ReadHlo(bytes);
    if (!shown || !program::FrontendAttributesOf(*shown).contains(std::string(kTracedAttribute))) {
      return std::nullopt;
    }
    auto changed = MarkModule(*std::move(shown), traced);
    marked = changed ? Status() : changed.error();
    return changed ? std::optional(*std::move(changed)) : std::nullopt;
  };
  PJRT_LoadedExecutable* loaded = nullptr;
  TORUS_RETURN_IF_ERROR(pjrt::WithTransform(s.engine, transform, [&] {
    return CompileHlo(s, client, program::WriteHlo(module), options, loaded);
  }));
  if (marked.ok()) return loaded;
  DestroyLoaded(s, loaded);
  return Error(marked);
}

std::shared_ptr<const TracedSelf> MakeSelf(State& s, const Program& program,
                                           PJRT_LoadedExecutable* executable) {
  auto traced = std::make_shared<TracedProgram>();
  traced->name = program.name;
  traced->generation = &program.client->slice.generation();
  auto self = std::make_shared<TracedSelf>();
  const auto loaded = CompileWithMarks(s, program, *traced);
  if (loaded) {
    self->loaded = *loaded;
  } else {
    self->why_unmarked = loaded.error().message();
    traced->operations.clear();
    traced->marks.clear();
    traced->hlo = OptimizedModule(s, executable).value_or("");
  }
  traced->id = Fingerprint(traced->name + traced->hlo);
  self->program = std::move(traced);
  return self;
}

std::shared_ptr<const TracedSelf> SelfOf(State& s, Program& program,
                                         PJRT_LoadedExecutable* executable) {
  const MutexLock lock(program.tracing);
  if (program.traced == nullptr) program.traced = MakeSelf(s, program, executable);
  return program.traced;
}

// ---- Recording

Status Mark(ffi::CallFrame& call) {
  const TracedRun* run = FindTracedRun(call);
  const auto mark = ffi::FindInt(call, program::kMarkAttribute);
  if (run == nullptr || !mark) return Status();
  RecordMark(*run, ffi::DeviceOrdinal(call).value_or(0), static_cast<int>(*mark));
  return Status();
}

// The framework's id of the call, for which its own trace has an event.
int64_t ContextOf(const PJRT_LoadedExecutable_Execute_Args& args) {
  const auto* extension = pjrt::FindProfilerExtension(args.extension_start);
  return extension == nullptr ? -1 : extension->traceme_context_id;
}

// A run on one device, timed by the event of its end.
struct Timed {
  std::shared_ptr<const TracedRun> run;
  size_t number = 0;  // of RecordBegin
};

void OnEnd(PJRT_Error* error, void* argument) {
  const std::unique_ptr<Timed> timed(static_cast<Timed*>(argument));
  state().engine.Take(error).ok();  // The caller hears of it by its own event.
  RecordEnd(*timed->run, timed->number, WallNanoseconds());
}

PJRT_Error* ExecuteTimed(State& s, const Program& program, PJRT_LoadedExecutable_Execute_Args* args,
                         const std::vector<Device*>& devices,
                         const std::shared_ptr<const TracedRun>& run) {
  std::vector<PJRT_Event*> own_events(args->num_devices);
  const bool ours = args->device_complete_events == nullptr;
  if (ours) args->device_complete_events = own_events.data();
  const int64_t begin = WallNanoseconds();
  PJRT_Error* error = ExecuteUntraced(s, program, args, devices);
  for (size_t d = 0; error == nullptr && d < args->num_devices; ++d) {
    auto on_ready = MakeArgs<PJRT_Event_OnReady_Args>();
    on_ready.event = args->device_complete_events[d];
    on_ready.callback = OnEnd;
    auto timed =
        std::make_unique<Timed>(Timed{run, RecordBegin(*run, devices[d]->identity->id, begin)});
    on_ready.user_arg = timed.get();
    if (s.engine.Take(s.engine.Call(pjrt::kEvent_OnReady, &on_ready)).ok()) timed.release();
    if (!ours) continue;
    auto destroy = MakeArgs<PJRT_Event_Destroy_Args>();
    destroy.event = on_ready.event;
    s.engine.Take(s.engine.Call(pjrt::kEvent_Destroy, &destroy)).ok();
  }
  if (ours) args->device_complete_events = nullptr;
  return error;
}

}  // namespace

std::shared_ptr<const CompiledFrom> CompiledFrom::Of(const PJRT_Client_Compile_Args& args) {
  return std::make_shared<const CompiledFrom>(
      CompiledFrom{.code = std::string(args.program->code, args.program->code_size),
                   .format = std::string(args.program->format, args.program->format_size),
                   .options = std::string(args.compile_options, args.compile_options_size)});
}

Status RegisterMarks(pjrt::Engine& engine) {
  return ffi::Register(engine, program::kMarkTarget, ffi::Handler<Mark>);
}

PJRT_Error* ExecuteTraced(State& s, Program& program, PJRT_LoadedExecutable_Execute_Args* args,
                          const std::vector<Device*>& devices) {
  const auto self = SelfOf(s, program, args->executable);
  const auto run = BeginTracedRun(self->program, ContextOf(*args));
  if (run == nullptr) return ExecuteUntraced(s, program, args, devices);
  if (self->loaded == nullptr) {
    RecordWarning(fmt::format("The operations of {} have no times, only whole runs of it: {}.",
                              program.name, self->why_unmarked));
    return ExecuteTimed(s, program, args, devices, run);
  }
  // The caller's own context cannot have the run's beside it.
  if (HasOwnContext(args->options)) return ExecuteTimed(s, program, args, devices, run);
  auto* const own = std::exchange(args->executable, self->loaded);
  PJRT_Error* error = ExecuteWithContext(s, args, devices, run);
  args->executable = own;
  return error;
}

void DestroyTracedSelf(State& s, Program& program) {
  const MutexLock lock(program.tracing);
  if (program.traced != nullptr && program.traced->loaded != nullptr) {
    DestroyLoaded(s, program.traced->loaded);
  }
  program.traced = nullptr;
}

}  // namespace torus::tpu
