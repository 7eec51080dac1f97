#include "tpu/device/replicas.h"

#include <algorithm>
#include <span>
#include <utility>

#include "tpu/device/compile_options.h"
#include "tpu/device/state.h"
#include "tpu/program/convert.h"
#include "tpu/program/replicas.h"

namespace torus::tpu {
namespace {

std::string_view OptionsOf(const PJRT_Client_Compile_Args& args) {
  return {args.compile_options, args.compile_options_size};
}

PJRT_Error* CompileWith(const std::string& options, PJRT_Client_Compile_Args* args,
                        const Gangs::Compile& compile) {
  const auto* const text = std::exchange(args->compile_options, options.data());
  const size_t size = std::exchange(args->compile_options_size, options.size());
  PJRT_Error* error = compile(args);
  args->compile_options = text;
  args->compile_options_size = size;
  return error;
}

}  // namespace

bool RunsReplicasAlone(const PJRT_Client_Create_Args& args) {
  const std::span options(args.create_options, args.num_options);
  return std::ranges::any_of(options, [](const PJRT_NamedValue& option) {
    return std::string_view(option.name, option.name_size) == "ml_framework_name" &&
           option.type == PJRT_NamedValue_kString &&
           std::string_view(option.string_value, option.value_size) == "PyTorch/XLA";
  });
}

PJRT_Error* Gangs::Get(PJRT_Client_Compile_Args* args, const Compile& compile) {
  std::string key(args->program->code, args->program->code_size);
  key.append(OptionsOf(*args));
  const MutexLock lock(mutex_);
  if (const auto known = gangs_.find(key); known != gangs_.end()) {
    ++known->second.holders;
    args->executable = known->second.executable;
    return nullptr;
  }
  if (PJRT_Error* error = compile(args)) return error;
  const auto program = state().programs.Find(args->executable);
  if (!program) return nullptr;  // it cannot be run as one
  (*program)->gang = true;
  gangs_[std::move(key)] = {.executable = args->executable, .holders = 1};
  return nullptr;
}

bool Gangs::Release(const PJRT_LoadedExecutable* executable) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(
      gangs_, [executable](const auto& entry) { return entry.second.executable == executable; });
  if (found == gangs_.end()) return true;
  if (--found->second.holders > 0) return false;
  gangs_.erase(found);
  return true;
}

Status Gangs::Join(int launch, const PJRT_LoadedExecutable* executable, size_t devices) {
  const MutexLock lock(launches_mutex_);
  Launch& of = launches_[launch];
  if (of.executable == nullptr) of.executable = executable;
  if (of.executable != executable) {
    return Unimplemented(
        "The devices of this slice run different programs that wait for one another, and the "
        "software TPU lets only replicas of one program meet. Let each thread of torch_xla.launch "
        "do the same before it reads a result: xm.all_gather, for one, needs pin_layout=False.");
  }
  if (++of.joined == devices) launches_.erase(launch);
  return Status();
}

PJRT_Error* CompileReplicas(State& s, Client& client, PJRT_Client_Compile_Args* args,
                            const Gangs::Compile& compile) {
  const Extent extent = ExtentOf(OptionsOf(*args));
  if (extent.replicas < 2 || extent.partitions > 1) return compile(args);
  const auto module = program::HloOf(s.engine, args->client,
                                     program::ProgramSource::Of(*args->program), OptionsOf(*args));
  if (!module) return compile(args);  // what cannot be read, the engine will say in its own words
  if (program::NeedsOtherReplicas(*module)) return client.gangs.Get(args, compile);
  return CompileWith(ForAnyDevice(OptionsOf(*args)), args, compile);
}

}  // namespace torus::tpu
