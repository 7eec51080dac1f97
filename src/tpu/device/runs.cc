// Runs of programs: where there is memory for them, and what they make and take over is booked.
#include <algorithm>
#include <span>

#include "base/mutex.h"
#include "tpu/device/collectives.h"
#include "tpu/device/host_callbacks.h"
#include "tpu/device/run_counter.h"
#include "tpu/device/state.h"

namespace torus::tpu {
namespace {

using pjrt::Ample;
using pjrt::MakeArgs;
using pjrt::NewError;

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
        program_.Advise(program_.run_bytes() - hbm.free()));
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

void OverrideRunFunctions(pjrt::Table& table) {
  Override(table, pjrt::kLoadedExecutable_Execute, Execute);
}

}  // namespace torus::tpu
