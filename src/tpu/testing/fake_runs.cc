// Modules, hooks and threads.
#include "tpu/testing/fake_runs.h"

#include <cstring>
#include <functional>
#include <thread>

#include "tpu/pjrt/ffi_abi.h"
#include "tpu/pjrt/xla_transform_abi.h"
#include "tpu/program/wire.h"

namespace ffi = torus::pjrt::ffi;
namespace xla_transform = torus::pjrt::xla_transform;

namespace torus::tpu::fake {
namespace {

using program::HloModule;

// ---- The hook at the end of a compile

struct Hook {
  Mutex mutex;
  xla_transform::Callbacks* callbacks TORUS_GUARDED_BY(mutex) = nullptr;
};

Hook& TheHook() {
  static Hook& hook = *new Hook;
  return hook;
}

PJRT_Error* SetHook(xla_transform::RegisterArgs* args) {
  Hook& hook = TheHook();
  const MutexLock lock(hook.mutex);
  hook.callbacks = args->callbacks;
  return nullptr;
}

PJRT_Error* ClearHook(xla_transform::ClearArgs* args) {
  Hook& hook = TheHook();
  const MutexLock lock(hook.mutex);
  hook.callbacks = nullptr;
  args->cleared = true;
  return nullptr;
}

// What the hook makes of the module, if one is set. It may be cleared meanwhile.
std::string Transformed(const std::string& code) {
  xla_transform::Callbacks* callbacks = nullptr;
  {
    Hook& hook = TheHook();
    const MutexLock lock(hook.mutex);
    callbacks = hook.callbacks;
  }
  if (callbacks == nullptr) return code;
  xla_transform::TransformArgs args{};
  args.struct_size = sizeof(args);
  args.module = {code.data(), code.size()};
  callbacks->transform(callbacks, &args);
  std::string transformed =
      args.changed ? std::string(args.transformed.data, args.transformed.size) : code;
  if (args.header.cleanup != nullptr) args.header.cleanup(args.header.data);
  return transformed;
}

// ---- FFI

PJRT_Error* RegisterTypeOf(ffi::RegisterTypeArgs* args) {
  args->type_id = RegisterType({args->type_name, args->type_name_size});
  return nullptr;
}

PJRT_Error* AddUserData(ffi::AddUserDataArgs* args) {
  args->context->data[args->type_id] = args->data;
  return nullptr;
}

PJRT_Error* RegisterHandlerOf(ffi::RegisterHandlerArgs* args) {
  return ToError(RegisterHandler({args->target_name, args->target_name_size}, args->handler));
}

// ---- Compiling

// The order in which the module has its instructions: xla.HloModuleProto's schedule.
void AddSchedule(HloModule& module) {
  module.others = program::wire::Without(module.others, 7);
  protozero::pbf_writer others(module.others);
  protozero::pbf_writer schedule(others, 7);
  for (const auto& computation : module.computations) {
    std::vector<int64_t> ids;
    for (const auto& instruction : computation.instructions) ids.push_back(instruction.id);
    protozero::pbf_writer entry(schedule, 1);
    entry.add_int64(1, computation.id);
    protozero::pbf_writer sequence(entry, 2);
    program::wire::AddInts(sequence, 1, ids);
  }
}

// Replicas of xla.CompileOptionsProto.executable_build_options.
size_t ReplicasOf(std::string_view options) {
  const auto build = program::wire::FindBytes(options, 3).value_or("");
  return static_cast<size_t>(program::wire::FindInt(build, 4).value_or(1));
}

PJRT_Error* Load(PJRT_Client* client, std::string code, size_t devices, const char* fingerprint,
                 PJRT_LoadedExecutable*& loaded) {
  auto module = program::ReadHlo(code);
  if (!module) return ToError(module.error());
  if (devices > client->device_list.size()) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "the program is for more devices");
  }
  PJRT_Executable executable{
      .words = {{"name", module->name}, {"devices", std::to_string(devices)}},
      .fingerprint = fingerprint};
  executable.code = std::move(code);
  executable.module = std::make_shared<const HloModule>(*std::move(module));
  const auto first = client->device_list.begin();
  loaded = new PJRT_LoadedExecutable{
      std::move(executable), {first, first + static_cast<ptrdiff_t>(devices)}, client->runs};
  return nullptr;
}

// ---- Running

void Start(const std::shared_ptr<Runs>& runs, std::function<void()> run) {
  {
    const MutexLock lock(runs->mutex);
    ++runs->running;
  }
  std::thread([runs, run = std::move(run)]() mutable {
    run();
    run = nullptr;  // what it holds goes before the client
    const MutexLock lock(runs->mutex);
    --runs->running;
    runs->changed.NotifyAll();
  }).detach();
}

// Where the devices of the launch meet: of all that Execute starts, or of one that comes in parts.
std::shared_ptr<Meeting> FindMeeting(PJRT_LoadedExecutable& loaded,
                                     const PJRT_LoadedExecutable_Execute_Args& args) {
  const size_t devices = loaded.devices.size();
  if (args.execute_device == nullptr || devices == 1) return std::make_shared<Meeting>(devices);
  const MutexLock lock(loaded.mutex);
  auto& launch = loaded.launches[args.options->launch_id];
  if (launch.meeting == nullptr) launch.meeting = std::make_shared<Meeting>(devices);
  const auto meeting = launch.meeting;
  if (++launch.joined == devices) loaded.launches.erase(args.options->launch_id);
  return meeting;
}

// One device's part.
struct Part {
  std::shared_ptr<const HloModule> module;
  std::vector<std::shared_ptr<Contents>> arguments, outputs;
  std::shared_ptr<Meeting> meeting;
  PJRT_ExecuteContext* context = nullptr;  // lives until `ended`
  int device = 0;
  std::shared_ptr<Signal> ended = std::make_shared<Signal>();

  Status Compute() const {
    std::vector<Array> arrays;
    for (const auto& argument : arguments) {
      TORUS_RETURN_IF_ERROR(argument->ready.Await());
      arrays.push_back(argument->array);
    }
    const Place place{device, context == nullptr ? nullptr : &context->data, meeting};
    TORUS_ASSIGN_OR_RETURN(const auto results, fake::Run(*module, std::move(arrays), place));
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i]->array.bytes->assign(results[i].bytes->begin(), results[i].bytes->end());
    return Status();
  }

  void Run() const {
    const Status status = Compute();
    for (const auto& output : outputs) output->ready.Set(status);
    ended->Set(status);
  }
};

// As a C engine fills it: a type of later versions has no place in the header's enum.
PJRT_Extension_Base Base(size_t size, int type, PJRT_Extension_Base* next) {
  PJRT_Extension_Base base{size, {}, next};
  std::memcpy(&base.type, &type, sizeof(type));
  return base;
}

}  // namespace

PJRT_Extension_Base* Extensions() {
  static xla_transform::Extension transform{
      Base(sizeof(transform), xla_transform::kExtensionType, nullptr), SetHook, ClearHook};
  static ffi::Extension calls{Base(sizeof(calls), ffi::kFfiExtensionType, &transform.base),
                              RegisterTypeOf, AddUserData, RegisterHandlerOf};
  return &calls.base;
}

PJRT_Error* CompileHlo(PJRT_Client_Compile_Args* args) {
  auto module = program::ReadHlo({args->program->code, args->program->code_size});
  if (!module) return ToError(module.error());
  AddSchedule(*module);
  return Load(args->client, Transformed(program::WriteHlo(*module)),
              ReplicasOf({args->compile_options, args->compile_options_size}), "compiled",
              args->executable);
}

PJRT_Error* RunHlo(PJRT_LoadedExecutable_Execute_Args* args) {
  PJRT_LoadedExecutable& loaded = *args->executable;
  const auto meeting = FindMeeting(loaded, *args);
  for (size_t d = 0; d < args->num_devices; ++d) {
    PJRT_Device* device = args->execute_device ? args->execute_device : loaded.devices[d];
    Part part{.module = loaded.executable.module, .meeting = meeting};
    part.context = args->options->context;
    part.device = device->description.id;
    for (size_t a = 0; a < args->num_args; ++a) {
      part.arguments.push_back(args->argument_lists[d][a]->contents);
      if (part.arguments.back() == nullptr) {
        return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "an argument holds no data");
      }
    }
    size_t o = 0;
    for (const auto& shape : OutputShapes(loaded.executable)) {
      auto contents = std::make_shared<Contents>();
      contents->array = MakeArrays(shape)[0];
      args->output_lists[d][o++] =
          new PJRT_Buffer{&device->memories[0], contents->array.bytes->size(), false, contents};
      part.outputs.push_back(std::move(contents));
    }
    if (args->device_complete_events != nullptr) {
      args->device_complete_events[d] = new PJRT_Event{part.ended};
    }
    Start(loaded.runs, [part = std::move(part)] { part.Run(); });
  }
  return nullptr;
}

void AwaitAll(Runs& runs) {
  MutexLock lock(runs.mutex);
  while (runs.running > 0) runs.changed.Wait(lock);
}

// ---- Serialized: a word, the number of devices in one character, and the module.

constexpr std::string_view kWord = "HLO";

std::string SerializeHlo(const PJRT_Executable& executable) {
  return std::string(kWord) + executable.words.at("devices") + executable.code;
}

bool IsSerializedHlo(const PJRT_Executable_DeserializeAndLoad_Args& args) {
  return std::string_view(args.serialized_executable, args.serialized_executable_size)
      .starts_with(kWord);
}

PJRT_Error* LoadHlo(PJRT_Executable_DeserializeAndLoad_Args* args) {
  const std::string_view bytes(args->serialized_executable, args->serialized_executable_size);
  return Load(args->client, std::string(bytes.substr(kWord.size() + 1)), bytes[kWord.size()] - '0',
              "loaded", args->loaded_executable);
}

std::string WithConfig(const std::string& module) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_message(1, module);
  return bytes;
}

std::vector<program::HloShape> OutputShapes(const PJRT_Executable& executable) {
  std::vector<program::HloShape> shapes;
  for (const Array& array : MakeArrays(ResultShape(*executable.module))) {
    if (array.bytes != nullptr) shapes.push_back(array.shape);
  }
  return shapes;
}

std::shared_ptr<Contents> Floats(const void* data, std::vector<int64_t> dimensions) {
  auto contents = std::make_shared<Contents>();
  const auto shape = program::ArrayShape(program::ElementType::kF32, std::move(dimensions));
  contents->array = MakeArrays(shape)[0];
  std::memcpy(contents->array.bytes->data(), data, contents->array.bytes->size());
  contents->ready.Set(Status());
  return contents;
}

}  // namespace torus::tpu::fake
