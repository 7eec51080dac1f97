// Executables of TensorFlow's own XLA: what tf.function(jit_compile=True) and eager operations on a
// core compile and run. The program comes as HLO.
#include <cstring>
#include <string>
#include <vector>

#include "tpu/tensorflow/adapter/handles.h"
#include "tpu/tensorflow/adapter/shapes.h"
#include "tpu/tensorflow/runtime/program.h"
#include "xla/service/hlo.pb.h"
#include "xla/shape_util.h"
#include "xla/stream_executor/tpu/c_api_conversions.h"

struct SE_Executable {
  std::shared_ptr<torus::tensorflow::Program> program;
  bool tuple_argument;  // one parameter, a tuple of the inputs
  xla::Shape result;
  std::string fingerprint;
};

namespace torus::tensorflow {
namespace {

Result<SE_Executable*> Compile(const XLA_HloModule& module, int ordinal) {
  xla::HloModuleProto proto;
  if (!proto.ParseFromArray(module.proto.bytes, static_cast<int>(module.proto.size)))
    return InvalidArgument("the module is no HloModuleProto");
  const auto& signature = proto.host_program_shape();
  auto result = OnDevice(xla::Shape(signature.result()));
  ProgramSource source{.hlo = proto.SerializeAsString(), .devices = {ordinal}};
  TORUS_ASSIGN_OR_RETURN(source.outputs, ToArrayShapes(result));
  for (const auto& parameter : signature.parameters()) {
    const auto shape = OnDevice(xla::Shape(parameter));
    source.tuple_arguments = shape.IsTuple() && signature.parameters_size() == 1;
    if (shape.IsTuple() && !source.tuple_arguments)
      return Unimplemented("a program of several parameters of which one is a tuple");
    TORUS_ASSIGN_OR_RETURN(auto arrays, ToArrayShapes(shape));
    source.inputs.insert(source.inputs.end(), arrays.begin(), arrays.end());
  }
  const bool tuple_argument = source.tuple_arguments;
  TORUS_ASSIGN_OR_RETURN(auto program, Program::Compile(std::move(source)));
  return new SE_Executable{std::move(program), tuple_argument, std::move(result),
                           proto.name() + "-" + std::to_string(proto.id())};
}

std::vector<DeviceMemory*> InputsOf(const SE_Executable& executable, SE_ExecutionInput** arguments,
                                    int count) {
  std::vector<DeviceMemory*> inputs;
  if (executable.tuple_argument) {
    const auto* buffers = arguments[0]->shape_tree.buffers;  // the table's, then the elements'
    for (size_t i = 0; i < executable.program->inputs().size(); ++i)
      inputs.push_back(MemoryOf(buffers[i + 1].memory));
  } else {
    for (int i = 0; i < count; ++i)
      inputs.push_back(MemoryOf(arguments[i]->shape_tree.buffers[0].memory));
  }
  return inputs;
}

// Memory for the result, which becomes TensorFlow's: each array's, behind the table of a tuple.
std::vector<DeviceMemory*> NewOutputs(const SE_Executable& executable, int ordinal,
                                      SE_ExecutionOutput* output) {
  std::vector<DeviceMemory*> arrays;
  std::vector<SE_DeviceMemoryBase> bases;
  const auto add = [&bases, ordinal](const xla::Shape& shape) {
    const auto size = static_cast<uint64_t>(ByteSize(shape));
    auto* memory = new DeviceMemory(ordinal, size);
    bases.push_back({.opaque = memory, .size = size, .payload = 0});
    return memory;
  };
  auto* first = add(executable.result);
  if (executable.result.IsTuple()) {
    for (const auto& element : executable.result.tuple_shapes()) arrays.push_back(add(element));
    first->elements = arrays;
  } else {
    arrays.push_back(first);
  }
  *output = {};
  ApiConverter::ToC(executable.result, &output->result.on_device_shape);
  output->result.bases = new SE_DeviceMemoryBase[bases.size()];
  std::memcpy(output->result.bases, bases.data(), bases.size() * sizeof bases[0]);
  output->result.count = bases.size();
  output->result.device_ordinal = ordinal;
  return arrays;
}

}  // namespace
}  // namespace torus::tensorflow

namespace runtime = torus::tensorflow;
using runtime::Set;

TORUS_TFTPU Tpu_Compiler* TpuCompiler_New() { return reinterpret_cast<Tpu_Compiler*>(new char); }
TORUS_TFTPU void TpuCompiler_Free(Tpu_Compiler* compiler) {
  delete reinterpret_cast<char*>(compiler);
}

// The passes are the engine's, when it compiles.
TORUS_TFTPU void TpuCompiler_RunHloPasses(Tpu_Compiler*, XLA_HloModule* module, SE_StreamExecutor*,
                                          SE_DeviceMemoryAllocator*, XLA_HloModule* result,
                                          TF_Status*) {
  result->proto.bytes = runtime::NewBytes({module->proto.bytes, module->proto.size});
  result->proto.size = module->proto.size;
}

TORUS_TFTPU void TpuCompiler_RunBackend(Tpu_Compiler*, XLA_HloModule* module,
                                        SE_StreamExecutor* executor, SE_DeviceMemoryAllocator*,
                                        SE_Executable** result, TF_Status* status) {
  auto compiled = runtime::Compile(*module, executor == nullptr ? 0 : executor->ordinal);
  if (!compiled) return Set(status, compiled.error());
  *result = *compiled;
}

TORUS_TFTPU void TpuExecutable_ExecuteAsyncOnStream(SE_Executable* executable,
                                                    SE_ExecutableRunOptions* options,
                                                    SE_ExecutionInput** arguments, int count,
#if TORUS_TENSORFLOW_MINOR < 19
                                                    SE_HloExecutionProfile*,
#endif
                                                    SE_ExecutionOutput* output, TF_Status* status) {
  const auto inputs = runtime::InputsOf(*executable, arguments, count);
  auto& stream = *options->stream;
  const auto outputs = runtime::NewOutputs(*executable, stream.ordinal, output);
  Set(status, executable->program->Enqueue(stream.ordinal, *stream.stream, inputs, outputs));
}

TORUS_TFTPU void TpuExecutable_FreeXlaShapeIndexArray(XLA_ShapeIndex* array) { delete[] array; }
TORUS_TFTPU void TpuExecutable_FreeMaybeOwningDeviceMemoryArray(SE_MaybeOwningDeviceMemory* array) {
  delete[] array;
}
TORUS_TFTPU void TpuExecutable_Fingerprint(SE_Executable* executable, const char** fingerprint,
                                           size_t* size) {
  *fingerprint = executable->fingerprint.data();
  *size = executable->fingerprint.size();
}
TORUS_TFTPU void TpuExecutable_Free(SE_Executable* executable) { delete executable; }
