#include "tpu/tensorflow/adapter/compile.h"

#include <optional>
#include <utility>
#include <vector>

#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor.h"
#include "tpu/tensorflow/adapter/shapes.h"
#include "xla/client/client_library.h"
#include "xla/client/local_client.h"
#include "xla/shape_util.h"
#include "xla/stream_executor/platform_manager.h"

namespace torus::tensorflow {
namespace {

using ::tensorflow::TensorShape;
using ::tensorflow::XlaArgument;
using ::tensorflow::XlaCompilationResult;
using ::tensorflow::XlaCompiler;
using ::tensorflow::tpu::TPUCompileMetadataProto;
using ::tensorflow::tpu::TpuCompilationRequestProto;

constexpr char kDeviceType[] = "XLA_TPU_JIT";

Status FromAbsl(const absl::Status& status) {
  return Status(static_cast<Code>(status.raw_code()), std::string(status.message()));
}

Result<std::vector<XlaArgument>> ArgumentsOf(const TpuCompilationRequestProto& request) {
  const auto& metadata = request.metadata();
  std::vector<XlaArgument> arguments;
  int constants = 0;
  for (int i = 0; i < metadata.args_size(); ++i) {
    const auto& described = metadata.args(i);
    XlaArgument argument;
    argument.type = described.dtype();
    argument.shape =
        TensorShape(i < request.arg_shapes_size() ? request.arg_shapes(i) : described.shape());
    argument.name = described.name();
    argument.is_same_data_across_replicas = described.is_same_data_across_replicas();
    switch (described.kind()) {
      case TPUCompileMetadataProto::Arg::PARAMETER:
        argument.kind = XlaArgument::kParameter;
        break;
      case TPUCompileMetadataProto::Arg::VARIABLE:
        argument.kind = XlaArgument::kResource;
        argument.resource_kind = ::tensorflow::XlaResource::kVariable;
        argument.initialized = true;
        argument.fast_mem = described.fast_mem();
        break;
      case TPUCompileMetadataProto::Arg::GUARANTEED_CONSTANT:
        argument.kind = XlaArgument::kConstant;
        if (constants >= request.guaranteed_constants_size() ||
            !argument.constant_value.FromProto(request.guaranteed_constants(constants++)))
          return InvalidArgument("argument {} (\"{}\") is a constant whose value did not come", i,
                                 described.name());
        break;
      default:
        return Unimplemented("argument {} (\"{}\") of kind {}", i, described.name(),
                             static_cast<int>(described.kind()));
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

Status TfToXla(const TpuCompilationRequestProto& request, XlaCompilationResult* result) {
  if (request.use_mlir())
    return Unimplemented(
        "programs of TensorFlow's MLIR bridge: leave tf.config.experimental.enable_mlir_bridge() "
        "out, as TensorFlow does by default");
  ::tensorflow::XlaOpRegistry::RegisterCompilationKernels();
  const auto platform = stream_executor::PlatformManager::PlatformWithName("TPU");
  if (!platform.ok()) return FromAbsl(platform.status());
  const auto client = xla::ClientLibrary::GetOrCreateLocalClient(*platform);
  if (!client.ok()) return FromAbsl(client.status());
  const ::tensorflow::FunctionLibraryDefinition library(::tensorflow::OpRegistry::Global(),
                                                        request.fdef_lib());
  XlaCompiler::Options options;
  options.device_type = ::tensorflow::DeviceType(kDeviceType);
  options.client = *client;
  options.flib_def = &library;
  options.graph_def_version = request.graph_def_version();
  XlaCompiler compiler(options);
  XlaCompiler::CompileOptions compile_options;
  compile_options.use_tuple_arg = true;
  compile_options.always_return_tuple = true;
  compile_options.alias_resource_update = true;
  TORUS_ASSIGN_OR_RETURN(const auto arguments, ArgumentsOf(request));
  return FromAbsl(
      compiler.CompileFunction(compile_options, request.function(), arguments, result));
}

// What TensorFlow wants to know of a program before it runs it.
void Describe(const TPUCompileMetadataProto& metadata, const XlaCompilationResult& result,
              CompiledGraph* graph) {
  auto& info = graph->info;
  *info.add_input_shapes() = result.xla_input_shapes[0].ToProto();
  *info.mutable_output_shape() = result.xla_output_shape.ToProto();
  for (const auto& output : result.outputs) output.shape.AsProto(info.add_output_tensor_shapes());
  size_t update = 0;
  for (int i = 0; i < metadata.args_size(); ++i) {
    if (metadata.args(i).kind() != TPUCompileMetadataProto::Arg::VARIABLE) continue;
    auto* variable = info.add_variable_indices();
    variable->set_index(i);
    if (update == result.resource_updates.size()) continue;
    const auto& next = result.resource_updates[update];
    if (next.input_index != i) continue;
    variable->set_updated(true);
    next.shape.AsProto(info.add_output_tensor_shapes());
    graph->modifies_variables |= next.modified;
    ++update;
  }
}

std::vector<int> DevicesOf(const TPUCompileMetadataProto& metadata) {
  std::vector<int> devices;
  const auto& assignment = metadata.device_assignment();
  for (int replica = 0; replica < assignment.replica_count(); ++replica)
    for (const auto& computation : assignment.computation_devices())
      devices.push_back(static_cast<int>(computation.replica_device_ids(replica)));
  return devices;
}

Status Build(const TpuCompilationRequestProto& request, CompiledGraph* graph) {
  XlaCompilationResult result;
  TORUS_RETURN_IF_ERROR(TfToXla(request, &result));
  const auto& metadata = request.metadata();
  Describe(metadata, result, graph);
  auto module = result.computation->proto();
  ProgramSource source{.hlo = module.SerializeAsString(),
                       .replicas = metadata.num_replicas(),
                       .partitions = metadata.num_cores_per_replica(),
                       .spmd = metadata.use_spmd_for_xla_partitioning(),
                       .tuple_arguments = true,
                       .devices = DevicesOf(metadata)};
  TORUS_ASSIGN_OR_RETURN(source.inputs, ToArrayShapes(result.xla_input_shapes[0]));
  TORUS_ASSIGN_OR_RETURN(source.outputs, ToArrayShapes(result.xla_output_shape));
  auto& kept = *graph->hlo.mutable_hlo_module();
  kept.set_name(module.name());
  *kept.mutable_input_output_alias() = module.input_output_alias();
  TORUS_ASSIGN_OR_RETURN(graph->program, Program::Compile(std::move(source)));
  return Status();
}

// Enough of an answer that TensorFlow comes as far as running it.
void DescribeFailed(const TpuCompilationRequestProto& request, CompiledGraph* graph) {
  const auto& metadata = request.metadata();
  std::vector<xla::Shape> inputs;
  graph->info.Clear();
  for (int i = 0; i < metadata.args_size(); ++i) {
    xla::PrimitiveType type = xla::F32;
    ::tensorflow::DataTypeToPrimitiveType(metadata.args(i).dtype(), &type).IgnoreError();
    std::vector<int64_t> dimensions;
    if (i < request.arg_shapes_size())
      for (const auto& dimension : request.arg_shapes(i).dim())
        dimensions.push_back(dimension.size());
    inputs.push_back(xla::ShapeUtil::MakeShapeWithDescendingLayout(type, dimensions));
    if (metadata.args(i).kind() == TPUCompileMetadataProto::Arg::VARIABLE)
      graph->info.add_variable_indices()->set_index(i);
  }
  *graph->info.add_input_shapes() = xla::ShapeUtil::MakeTupleShape(inputs).ToProto();
  *graph->info.mutable_output_shape() =
      xla::ShapeUtil::MakeTupleShape(std::vector<xla::Shape>()).ToProto();
  graph->hlo.mutable_hlo_module()->set_name("failed");
}

}  // namespace

CompiledGraph CompileGraph(const TpuCompilationRequestProto& request) {
  CompiledGraph graph;
  graph.failure = Build(request, &graph);
  if (!graph.failure.ok()) DescribeFailed(request, &graph);
  return graph;
}

}  // namespace torus::tensorflow
