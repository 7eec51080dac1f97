#include "tpu/tensorflow/adapter/compile.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor.h"
#include "tpu/tensorflow/adapter/handles.h"
#include "tpu/tensorflow/adapter/results.h"
#include "tpu/tensorflow/adapter/shapes.h"
#include "tpu/tensorflow/adapter/shardings.h"
#include "xla/client/client_library.h"
#include "xla/client/local_client.h"
#include "xla/service/platform_util.h"
#include "xla/shape_util.h"

namespace torus::tensorflow {
namespace {

using ::tensorflow::TensorShape;
using ::tensorflow::XlaArgument;
using ::tensorflow::XlaCompilationResult;
using ::tensorflow::XlaCompiler;
using ::tensorflow::tpu::TpuCompilationRequestProto;
using ::tensorflow::tpu::TPUCompileMetadataProto;

constexpr char kDeviceType[] = "XLA_TPU_JIT";

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
  // By way of libtensorflow_cc: 2.19 has a PlatformManager in each of its libraries, and the one
  // that has the platforms is the one that libtensorflow_cc finds.
  const auto platform = xla::PlatformUtil::GetPlatform("TPU");
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
  TORUS_RETURN_IF_ERROR(SetShardings(request, compiler));
  XlaCompiler::CompileOptions compile_options;
  compile_options.use_tuple_arg = true;
  compile_options.always_return_tuple = true;
  compile_options.alias_resource_update = true;
  TORUS_ASSIGN_OR_RETURN(const auto arguments, ArgumentsOf(request));
  return FromAbsl(compiler.CompileFunction(compile_options, request.function(), arguments, result));
}

std::vector<int> DevicesOf(const TPUCompileMetadataProto& metadata) {
  std::vector<int> devices;
  const auto& assignment = metadata.device_assignment();
  for (int replica = 0; replica < assignment.replica_count(); ++replica)
    for (const auto& computation : assignment.computation_devices())
      devices.push_back(static_cast<int>(computation.replica_device_ids(replica)));
  return devices;
}

// What TensorFlow reads of the module: which outputs take the memory of which inputs, by the
// numbers that they have on this core.
xla::HloProto HloOf(const xla::HloModuleProto& module, const CorePart& part) {
  xla::HloProto hlo;
  auto& kept = *hlo.mutable_hlo_module();
  kept.set_name(module.name());
  const auto place = [](const std::vector<int>& all, int64_t number) {
    return std::ranges::find(all, static_cast<int>(number)) - all.begin();
  };
  for (auto entry : module.input_output_alias().entries()) {
    const auto input = place(part.inputs, entry.parameter_shape_index(0));
    const auto output = place(part.outputs, entry.output_shape_index(0));
    if (input == std::ssize(part.inputs) || output == std::ssize(part.outputs)) continue;
    entry.set_parameter_shape_index(0, input);
    entry.set_output_shape_index(0, output);
    *kept.mutable_input_output_alias()->add_entries() = entry;
  }
  return hlo;
}

Result<std::vector<CompiledGraph>> Build(const TpuCompilationRequestProto& request) {
  XlaCompilationResult result;
  TORUS_RETURN_IF_ERROR(TfToXla(request, &result));
  const auto& metadata = request.metadata();
  TORUS_ASSIGN_OR_RETURN(auto parts, PartsOfCores(metadata, result));
  auto module = result.computation->proto();
  const auto numbers = JoinResults(&module);
  for (auto& part : parts)
    for (int& output : part.outputs) output = numbers[output];
  ProgramSource source{.hlo = module.SerializeAsString(),
                       .replicas = metadata.num_replicas(),
                       .partitions = metadata.num_cores_per_replica(),
                       .spmd = metadata.num_cores_per_replica() > 1,
                       .tuple_arguments = true,
                       .devices = DevicesOf(metadata)};
  TORUS_ASSIGN_OR_RETURN(source.inputs, ToArrayShapes(result.xla_input_shapes[0]));
  TORUS_ASSIGN_OR_RETURN(const auto outputs, ToArrayShapes(result.xla_output_shape));
  source.outputs.resize(numbers.empty() ? 0 : std::ranges::max(numbers) + 1);
  for (size_t i = 0; i < numbers.size(); ++i) source.outputs[numbers[i]] = outputs[i];
  TORUS_ASSIGN_OR_RETURN(const auto program, Program::Compile(std::move(source)));
  std::vector<CompiledGraph> graphs;
  for (auto& part : parts) {
    auto hlo = HloOf(module, part);
    graphs.push_back({.program = program,
                      .part = std::move(part),
                      .hlo = std::move(hlo),
                      .size = static_cast<int64_t>(module.ByteSizeLong())});
  }
  return graphs;
}

// Enough of an answer that TensorFlow comes as far as running it.
CompiledGraph Failed(const TpuCompilationRequestProto& request, Status failure) {
  CompiledGraph graph{.failure = std::move(failure)};
  auto& info = graph.part.info;
  const auto& metadata = request.metadata();
  std::vector<xla::Shape> inputs;
  for (int i = 0; i < metadata.args_size(); ++i) {
    xla::PrimitiveType type = xla::F32;
    ::tensorflow::DataTypeToPrimitiveType(metadata.args(i).dtype(), &type).IgnoreError();
    std::vector<int64_t> dimensions;
    if (i < request.arg_shapes_size())
      for (const auto& dimension : request.arg_shapes(i).dim())
        dimensions.push_back(dimension.size());
    inputs.push_back(xla::ShapeUtil::MakeShapeWithDescendingLayout(type, dimensions));
    if (metadata.args(i).kind() == TPUCompileMetadataProto::Arg::VARIABLE)
      info.add_variable_indices()->set_index(i);
  }
  *info.add_input_shapes() = xla::ShapeUtil::MakeTupleShape(inputs).ToProto();
  *info.mutable_output_shape() =
      xla::ShapeUtil::MakeTupleShape(std::vector<xla::Shape>()).ToProto();
  graph.hlo.mutable_hlo_module()->set_name("failed");
  return graph;
}

}  // namespace

std::vector<CompiledGraph> CompileGraph(const TpuCompilationRequestProto& request) {
  auto graphs = Build(request);
  if (graphs) return *std::move(graphs);
  const bool spmd = request.metadata().use_spmd_for_xla_partitioning();
  return std::vector(spmd ? 1 : request.metadata().num_cores_per_replica(),
                     Failed(request, graphs.error()));
}

}  // namespace torus::tensorflow
