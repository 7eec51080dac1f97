#include "tpu/tensorflow/runtime/program.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "tpu/pjrt/args.h"
#include "tpu/program/hlo.h"
#include "tpu/program/replicas.h"
#include "tpu/tensorflow/runtime/callbacks.h"
#include "tpu/tensorflow/runtime/compile_options.h"

namespace torus::tensorflow {
namespace {

using pjrt::MakeArgs;

// Those that FailWaiting reaches.
struct Programs {
  Mutex mutex;
  std::set<Program*> all;
};
Programs& ThePrograms() {
  static Programs& programs = *new Programs;
  return programs;
}

Result<PJRT_LoadedExecutable*> CompileHlo(const Tpu& tpu, std::string_view hlo,
                                          const CompileOptions& options) {
  static constexpr std::string_view kFormat = "hlo";
  auto program = MakeArgs<PJRT_Program>();
  program.code = const_cast<char*>(hlo.data());
  program.code_size = hlo.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  const auto serialized = Serialize(options);
  auto args = MakeArgs<PJRT_Client_Compile_Args>();
  args.client = tpu.client();
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  TORUS_RETURN_IF_ERROR(tpu.Take(Tpu::api()->PJRT_Client_Compile(&args)));
  return args.executable;
}

// Launches on several devices, one after the other: so every device gets the programs of all in one
// order, and no two wait for each other. A launch that finds another under way is made later, on a
// thread of ours: TensorFlow's threads do not wait.
class Turns {
 public:
  // `waits`: the launch may wait for the host, which TensorFlow's threads are.
  void Take(std::function<void()> launch, bool waits) {
    {
      const MutexLock lock(mutex_);
      if (std::exchange(busy_, true)) return waiting_.push_back(std::move(launch));
    }
    if (waits) return Make(std::move(launch));
    launch();
    Next();
  }

 private:
  void Make(std::function<void()> launch) {
    CallBack([this, launch = std::move(launch)] {
      launch();
      Next();
    });
  }
  void Next() {
    std::function<void()> next;
    {
      const MutexLock lock(mutex_);
      busy_ = !waiting_.empty();
      if (!busy_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Make(std::move(next));
  }

  Mutex mutex_;
  bool busy_ TORUS_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> waiting_ TORUS_GUARDED_BY(mutex_);
};
Turns& TheTurns() {
  static Turns& turns = *new Turns;
  return turns;
}

}  // namespace

// What one device brings to a launch.
struct Program::Part {
  int device = -1;  // -1: it has not come yet
  std::vector<std::shared_ptr<Array>> inputs, outputs;
  std::vector<bool> given_up;     // by input: an output takes its memory
  std::shared_ptr<HostRun> host;  // null where the program has no transfers
  std::function<void(Status)> ended;

  // Gives out the outputs, whose buffers it takes, or what the run failed of.
  void End(Status status, const std::vector<PJRT_Buffer*>& buffers);
  // It never ran. The stream, whose error would be that of whatever comes next, is as before.
  void Fail(Status status);

 private:
  // What the host's side failed of: the reason of what the program then failed of.
  Status OfHost() const { return host == nullptr ? Status() : host->failure(); }
};

void Program::Part::End(Status status, const std::vector<PJRT_Buffer*>& buffers) {
  const auto of_host = OfHost();
  if (!of_host.ok()) status = of_host;
  if (host != nullptr && !status.ok()) host->Abort(status);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Array made(status.ok() ? nullptr : buffers[i]);  // freed here where nobody takes it
    Array::Resolve(std::move(outputs[i]),
                   status.ok() ? Result<PJRT_Buffer*>(buffers[i]) : Error(status));
  }
  // TensorFlow knows why its own side failed, and would find the stream broken for good.
  ended(of_host.ok() ? status : Status());
}

void Program::Part::Fail(Status status) {
  inputs.clear();
  if (auto of_host = OfHost(); !of_host.ok()) status = std::move(of_host);
  if (host != nullptr) host->Abort(status);
  for (auto& output : outputs) Array::Resolve(std::move(output), Error(status));
  ended(Status());
}

struct Program::Launch {
  std::vector<Part> parts;          // by place
  std::atomic<size_t> missing = 0;  // values that are to come
};

Result<std::shared_ptr<Program>> Program::Compile(ProgramSource source) {
  TORUS_ASSIGN_OR_RETURN(const auto tpu, Tpu::Get());
  TORUS_ASSIGN_OR_RETURN(const auto module, program::ReadHlo(source.hlo));
  const auto count = static_cast<size_t>(source.replicas) * source.partitions;
  if (source.devices.empty()) {
    source.devices.resize(count);
    std::iota(source.devices.begin(), source.devices.end(), 0);
  }
  TORUS_ASSIGN_OR_RETURN(auto transfers, HostTransfersOf(module));
  const bool joint = source.partitions > 1 || program::NeedsOtherReplicas(module);
  CompileOptions options{.tuple_arguments = source.tuple_arguments};
  if (joint) {
    options.replicas = source.replicas;
    options.partitions = source.partitions;
    options.spmd = source.spmd;
    for (const int device : source.devices) {
      TORUS_ASSIGN_OR_RETURN(const int id, tpu->DeviceId(device));
      options.device_ids.push_back(id);
    }
  }
  TORUS_ASSIGN_OR_RETURN(const auto executable, CompileHlo(*tpu, source.hlo, options));
  std::string().swap(source.hlo);
  std::shared_ptr<Program> program(new Program(tpu, std::move(source), executable));
  program->joint_ = joint;
  program->transfers_ = std::make_shared<const std::vector<HostTransfer>>(std::move(transfers));
  TORUS_RETURN_IF_ERROR(program->FindPlaces());
  auto& programs = ThePrograms();
  const MutexLock lock(programs.mutex);
  programs.all.insert(program.get());
  return program;
}

Program::~Program() {
  {
    auto& programs = ThePrograms();
    const MutexLock lock(programs.mutex);
    programs.all.erase(this);
  }
  for (const auto& launch : waiting_)
    Fail(*launch, Status(Code::kCancelled, "the program was freed before all its devices came"));
  auto args = MakeArgs<PJRT_LoadedExecutable_Destroy_Args>();
  args.executable = executable_;
  tpu_->Take(Tpu::api()->PJRT_LoadedExecutable_Destroy(&args)).ok();
}

// The order in which PJRT wants the devices' arguments.
Status Program::FindPlaces() {
  places_.assign(tpu_->devices().size(), joint_ ? -1 : 0);
  if (!joint_) return Status();
  auto args = MakeArgs<PJRT_LoadedExecutable_AddressableDevices_Args>();
  args.executable = executable_;
  TORUS_RETURN_IF_ERROR(tpu_->Take(Tpu::api()->PJRT_LoadedExecutable_AddressableDevices(&args)));
  const auto& devices = tpu_->devices();
  for (size_t place = 0; place < args.num_addressable_devices; ++place) {
    const auto device = std::ranges::find(devices, args.addressable_devices[place]);
    if (device == devices.end()) return Internal("the program runs on a core of another host");
    places_[device - devices.begin()] = static_cast<int>(place);
  }
  return Status();
}

Status Program::Enqueue(int device, Stream& stream, const std::vector<DeviceMemory*>& inputs,
                        const std::vector<DeviceMemory*>& outputs, std::shared_ptr<Host> host) {
  TORUS_RETURN_IF_ERROR(tpu_->device(device));
  if (inputs.size() != source_.inputs.size() || outputs.size() != source_.outputs.size())
    return Internal("a program of {} inputs and {} outputs was given {} and {}",
                    source_.inputs.size(), source_.outputs.size(), inputs.size(), outputs.size());
  const int place = places_[device];
  if (place < 0) return InvalidArgument("the program was not compiled for TPU core {}", device);
  Part part{.device = device};
  if (!transfers_->empty()) {
    if (host == nullptr)
      return FailedPrecondition("the program sends \"{}\" and has no host", (*transfers_)[0].name);
    part.host = std::make_shared<HostRun>(transfers_, std::move(host), joint_);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORUS_ASSIGN_OR_RETURN(auto array, Input(device, i, inputs[i]));
    part.inputs.push_back(std::move(array));
    part.given_up.push_back(inputs[i] != nullptr &&
                            std::ranges::find(outputs, inputs[i]) != outputs.end());
  }
  for (auto* memory : outputs) {
    part.outputs.push_back(std::make_shared<Array>());
    if (memory != nullptr) memory->Set(part.outputs.back());
  }
  part.ended = stream.Begin();

  std::shared_ptr<Launch> launch;
  {
    const MutexLock lock(mutex_);
    auto at = std::ranges::find_if(
        waiting_, [place](const auto& each) { return each->parts[place].device < 0; });
    if (at == waiting_.end()) {
      auto fresh = std::make_shared<Launch>();
      fresh->parts.resize(joint_ ? source_.devices.size() : 1);
      at = waiting_.insert(waiting_.end(), std::move(fresh));
    }
    launch = *at;
    launch->parts[place] = std::move(part);
    const bool complete =
        std::ranges::all_of(launch->parts, [](const Part& each) { return each.device >= 0; });
    if (!complete) return Status();
    waiting_.erase(at);
  }
  Join(launch);
  return Status();
}

// Every device has come: runs it once every value is there. The values are let go of one by one, so
// that the launch is the only one that holds what it may give up.
void Program::Join(const std::shared_ptr<Launch>& launch) {
  std::vector<std::shared_ptr<Array>> values;
  for (const auto& part : launch->parts)
    values.insert(values.end(), part.inputs.begin(), part.inputs.end());
  launch->missing = values.size() + 1;
  const auto one_less = [self = shared_from_this(), launch] {
    if (--launch->missing == 0) self->Run(launch);
  };
  for (auto& value : values) std::exchange(value, nullptr)->WhenResolved(one_less);
  one_less();
}

// The value of an input: what the memory holds, nothing of no elements, or zeros for what is
// another core's.
Result<std::shared_ptr<Array>> Program::Input(int device, size_t index,
                                              DeviceMemory* memory) const {
  const auto& shape = source_.inputs[index];
  if (memory == nullptr && shape.HasElements()) return Zeros(device, shape);
  if (memory != nullptr) {
    if (auto array = memory->array()) return array;
    if (memory->size() > 0 && shape.HasElements())
      return FailedPrecondition("input {} of the program is memory that nothing was written to",
                                index);
  }
  return ToDevice(device, shape, nullptr, [](const Status&) {});
}

void Program::Run(const std::shared_ptr<Launch>& launch) {
  auto run = [self = shared_from_this(), launch] {
    const auto status = self->Execute(*launch);
    if (!status.ok()) Fail(*launch, status);
  };
  // The engine runs a cheap program in the call that launches it.
  const bool waits = !transfers_->empty();
  if (joint_) return TheTurns().Take(std::move(run), waits);
  if (waits) return CallBack(std::move(run));
  run();
}

void Program::Fail(Launch& launch, const Status& status) {
  for (auto& part : launch.parts)
    if (part.device >= 0) part.Fail(status);
}

// The buffers of all devices' inputs, place by place; the first error among them.
Result<std::vector<PJRT_Buffer*>> Program::Gather(Launch& launch) const {
  std::vector<PJRT_Buffer*> buffers;
  for (const auto& part : launch.parts) {
    for (const auto& input : part.inputs) {
      TORUS_ASSIGN_OR_RETURN(auto* buffer, input->buffer());
      buffers.push_back(buffer);
    }
  }
  return buffers;
}

Status Program::Execute(Launch& launch) {
  const size_t devices = launch.parts.size();
  const size_t input_count = source_.inputs.size(), output_count = source_.outputs.size();
  TORUS_ASSIGN_OR_RETURN(auto inputs, Gather(launch));
  std::vector<PJRT_Buffer*> outputs(devices * output_count);
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (size_t place = 0; place < devices; ++place) {
    input_lists.push_back(inputs.data() + place * input_count);
    output_lists.push_back(outputs.data() + place * output_count);
  }
  // One that another still reads is not given up: the engine copies it.
  std::vector<int64_t> kept;
  for (size_t i = 0; i < input_count; ++i) {
    const bool given_up = std::ranges::all_of(launch.parts, [i](const Part& part) {
      return part.given_up[i] && part.inputs[i].use_count() == 1;
    });
    if (!given_up) kept.push_back(static_cast<int64_t>(i));
  }
  auto options = MakeArgs<PJRT_ExecuteOptions>();
  options.non_donatable_input_indices = kept.data();
  options.num_non_donatable_input_indices = kept.size();
  std::vector<PJRT_SendCallbackInfo*> sends;
  std::vector<PJRT_RecvCallbackInfo*> recvs;
  for (auto& part : launch.parts) {
    if (part.host == nullptr) continue;
    sends.push_back(part.host->sends().data());
    recvs.push_back(part.host->recvs().data());
    options.num_send_ops = part.host->sends().size();
    options.num_recv_ops = part.host->recvs().size();
  }
  options.send_callbacks = sends.data();
  options.recv_callbacks = recvs.data();
  std::vector<PJRT_Event*> ends(devices);
  auto args = MakeArgs<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = executable_;
  args.options = &options;
  args.argument_lists = input_lists.data();
  args.num_devices = devices;
  args.num_args = input_count;
  args.output_lists = output_lists.data();
  args.device_complete_events = ends.data();
  if (!joint_) args.execute_device = tpu_->devices()[launch.parts[0].device];
  TORUS_RETURN_IF_ERROR(tpu_->Take(Tpu::api()->PJRT_LoadedExecutable_Execute(&args)));
  for (size_t place = 0; place < devices; ++place)
    Begun(launch.parts[place], outputs.data() + place * output_count, ends[place]);
  return Status();
}

// Gives out a device's outputs: at once; where the host has a say, when the run has ended well.
void Program::Begun(Part& part, PJRT_Buffer** outputs, PJRT_Event* end) {
  part.inputs.clear();
  if (part.host == nullptr) {
    tpu_->WhenReady(end, std::move(part.ended));
    for (size_t i = 0; i < part.outputs.size(); ++i)
      Array::Resolve(std::move(part.outputs[i]), outputs[i]);
    return;
  }
  const auto run = std::make_shared<Part>(std::move(part));
  const std::vector buffers(outputs, outputs + run->outputs.size());
  tpu_->WhenReady(end, [run, buffers](Status status) {
    CallBack([run, buffers, status] { run->End(status, buffers); });
  });
}

void Program::FailWaiting(const Status& status) {
  std::vector<std::shared_ptr<Launch>> failed;
  {
    auto& programs = ThePrograms();
    const MutexLock lock(programs.mutex);
    for (auto* program : programs.all) {
      const MutexLock program_lock(program->mutex_);
      failed.insert(failed.end(), program->waiting_.begin(), program->waiting_.end());
      program->waiting_.clear();
    }
  }
  for (const auto& launch : failed) Fail(*launch, status);
}

}  // namespace torus::tensorflow
