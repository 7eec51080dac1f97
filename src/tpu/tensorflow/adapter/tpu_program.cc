// TPU programs: the compiled graphs of tf.function and TPUStrategy, and running them.
#include <atomic>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "tpu/tensorflow/adapter/compile.h"
#include "tpu/tensorflow/adapter/handles.h"
#include "tpu/tensorflow/adapter/rendezvous.h"

struct XLA_TpuProgram {
  torus::tensorflow::CompiledGraph graph;
  std::string fingerprint;
};

namespace torus::tensorflow {
namespace {

template <typename Out>
void Give(const google::protobuf::Message& message, Out* out) {
  const auto bytes = message.SerializeAsString();
  out->bytes = NewBytes(bytes);
  out->size = bytes.size();
}

// The memory of a program's inputs or outputs: the tuple has those with the numbers, the rest are
// another core's. A tuple of none may have no table.
Result<std::vector<DeviceMemory*>> ElementsOf(const SE_DeviceMemoryBase& base,
                                              const std::vector<int>& numbers, size_t count) {
  std::vector<DeviceMemory*> all(count);
  const auto* table = MemoryOf(base);
  const size_t given = table == nullptr ? 0 : table->elements.size();
  if (given != numbers.size())
    return Internal("a table of {} elements where the program has {}", given, numbers.size());
  for (size_t i = 0; i < given; ++i) all[numbers[i]] = table->elements[i];
  return all;
}

// Memory for a result that the program gives in other memory already (results.h).
void ShareResults(const SE_DeviceMemoryBase& base, const std::vector<int>& numbers,
                  const std::vector<DeviceMemory*>& outputs) {
  const auto* table = MemoryOf(base);
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto* first = outputs[numbers[i]];
    auto* memory = table->elements[i];
    if (memory != first && memory != nullptr && first != nullptr) memory->Set(first->array());
  }
}

Status Enqueue(const TpuExecutable_LoadProgramAndEnqueueToStream_Params& params) {
  const auto& graph = params.program->graph;
  if (!graph.failure.ok())
    return Status(graph.failure.code(), "TPU compilation failed: " + graph.failure.message());
  if (params.arguments_len != 1)
    return Internal("a program of {} parameters; one tuple was expected", params.arguments_len);
  auto& program = *graph.program;
  TORUS_ASSIGN_OR_RETURN(const auto inputs, ElementsOf(params.arguments[0], graph.part.inputs,
                                                       program.inputs().size()));
  TORUS_ASSIGN_OR_RETURN(const auto outputs,
                         ElementsOf(*params.result, graph.part.outputs, program.outputs().size()));
  TORUS_RETURN_IF_ERROR(program.Enqueue(params.stream->ordinal, *params.stream->stream, inputs,
                                        outputs, HostOf(params.outside_compilation_params)));
  ShareResults(*params.result, graph.part.outputs, outputs);
  return Status();
}

}  // namespace
}  // namespace torus::tensorflow

namespace runtime = torus::tensorflow;
using runtime::Give;
using runtime::Set;

// ---- Compiling

TORUS_TFTPU void TpuCompile_CompileAndBuild(TpuSerializedProto request, const XLA_TpuMeshState*,
                                            XLA_TpuProgram** programs[], size_t* count,
                                            TF_Status* status) {
  tensorflow::tpu::TpuCompilationRequestProto proto;
  if (!proto.ParseFromArray(request.bytes, static_cast<int>(request.size)))
    return Set(status, torus::InvalidArgument("the compilation request is no proto"));
  static std::atomic<int64_t> next = 0;
  auto graphs = runtime::CompileGraph(proto);
  *count = graphs.size();
  *programs = new XLA_TpuProgram*[graphs.size()];
  for (size_t i = 0; i < graphs.size(); ++i)
    (*programs)[i] = new XLA_TpuProgram{std::move(graphs[i]), "torus-" + std::to_string(next++)};
}

TORUS_TFTPU bool TpuCompile_IsTpuCompilationEnabled() { return true; }
// A compilation ends by itself, and whoever asked may go: no need to end the process.
TORUS_TFTPU bool TpuCompile_ShouldTpuCompileOpIgnoreCancellation() { return true; }

TORUS_TFTPU CompilationCacheKeyResult
TpuCompile_CreateCompilationCacheKey(CompilationCacheKeyProperty property) {
  std::string key;
  for (const char* text :
       {property.config_prefix, property.shapes_prefix, property.function_name}) {
    key += text == nullptr ? "" : text;
    key += ':';
  }
  for (const uint64_t number :
       {property.mlir_module_fingerprint, property.function_library_fingerprint,
        static_cast<uint64_t>(property.num_replicas),
        static_cast<uint64_t>(property.num_cores_per_replica), property.session_id})
    key += std::to_string(number) + ':';
  for (size_t i = 0; i < property.device_ids_size; ++i)
    key += std::to_string(property.device_ids[i]) + ',';
  return {.key = runtime::NewText(key), .debug_string = runtime::NewText(key)};
}

TORUS_TFTPU void TpuCompile_DestroyCompilationCacheKey(CompilationCacheKeyResult result) {
  delete[] result.key;
  delete[] result.debug_string;
}

TORUS_TFTPU uint64_t TpuCompile_CreateGuaranteedConstFingerprint(uint64_t fingerprint,
                                                                 const char* data, size_t size) {
  return fingerprint * 31 + std::hash<std::string_view>()({data, size});
}

TORUS_TFTPU absl::StatusOr<int> TpuTopology_MaybeAvailableSparseCoresPerLogicalDevice(
    TpuCoreTypeEnum) {
  return 0;
}

// ---- What TensorFlow reads of a program

TORUS_TFTPU XLA_TpuProgram* TpuProgram_New() { return new XLA_TpuProgram; }
TORUS_TFTPU void TpuProgram_Free(XLA_TpuProgram* program) { delete program; }
TORUS_TFTPU XLA_TpuProgram** TpuProgram_NewArray(size_t count) {
  return new XLA_TpuProgram* [count] {};
}
TORUS_TFTPU void TpuProgram_FreeArray(XLA_TpuProgram* programs[]) { delete[] programs; }
TORUS_TFTPU void TpuProgram_UnloadAndDestroy(XLA_TpuProgram* program, TF_Status*) {
  program->graph.program = nullptr;
}

TORUS_TFTPU int64_t TpuProgram_GetProgramSize(const XLA_TpuProgram* program) {
  return program->graph.size;
}
TORUS_TFTPU bool TpuProgram_LogProgramMemorySummary(const XLA_TpuProgram*) { return true; }
TORUS_TFTPU bool TpuProgram_HasSharding(const XLA_TpuProgram*) { return false; }

TORUS_TFTPU void TpuProgram_GetExecutableInfo(const XLA_TpuProgram* program,
                                              TpuSerializedProto* info, TF_Status*) {
  Give(program->graph.part.info, info);
}

// TensorFlow ends the process at an empty message; an error it takes for "none".
TORUS_TFTPU void TpuProgram_GetHostTransferInfo(const XLA_TpuProgram*, TpuSerializedProto*,
                                                TF_Status* status) {
  Set(status, torus::NotFound("the program has no transfers to the host"));
}

TORUS_TFTPU void TpuProgram_GetHloMetadata(const XLA_TpuProgram* program, TpuSerializedProto* hlo,
                                           TF_Status*) {
  Give(program->graph.hlo, hlo);
}

TORUS_TFTPU void TpuProgram_GetMayModifyVariables(const XLA_TpuProgram* program, bool* modifies) {
  *modifies = program->graph.part.modifies_variables;
}

TORUS_TFTPU TpuProgramFingerprint TpuProgram_GetFingerprint(const XLA_TpuProgram* program) {
  return {.bytes = runtime::NewBytes(program->fingerprint), .size = program->fingerprint.size()};
}
TORUS_TFTPU void TpuProgram_DestroyFingerprint(TpuProgramFingerprint fingerprint) {
  delete[] fingerprint.bytes;
}

// ---- Running

TORUS_TFTPU void TpuExecutable_LoadProgramAndEnqueueToStream(
    TpuExecutable_LoadProgramAndEnqueueToStream_Params* params) {
  Set(params->status, runtime::Enqueue(*params));
}
