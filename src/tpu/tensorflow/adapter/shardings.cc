#include "tpu/tensorflow/adapter/shardings.h"

#include <algorithm>

#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/graph/graph.h"
#include "tpu/tensorflow/adapter/handles.h"

namespace torus::tensorflow {
namespace {

constexpr char kSharding[] = "_XlaSharding";  // of a node: where tf2xla looks

// Of the nodes of arguments, or of results.
template <typename Nodes, typename Described>
void SetEach(const Nodes& nodes, const Described& described) {
  const auto count = std::min(static_cast<int>(nodes.size()), described.size());
  for (int i = 0; i < count; ++i)
    if (described[i].has_sharding())
      nodes[i]->AddAttr(kSharding, described[i].sharding().SerializeAsString());
}

// The replica's one core is a sharding, too, where an operation was put there by name. tf2xla would
// spread it to some arguments and results, and wants it of all or of none.
void ClearAll(::tensorflow::Graph& graph) {
  for (auto* node : graph.op_nodes()) {
    node->ClearAttr(kSharding);
    node->set_requested_device("");
    node->set_assigned_device_name("");
  }
}

}  // namespace

Status SetShardings(const ::tensorflow::tpu::TpuCompilationRequestProto& request,
                    ::tensorflow::XlaCompiler& compiler) {
  // The compiler's own: it compiles the same body.
  const ::tensorflow::FunctionBody* body = nullptr;
  TORUS_RETURN_IF_ERROR(FromAbsl(compiler.FindFunctionBody(request.function(), &body)));
  const auto& metadata = request.metadata();
  if (metadata.num_cores_per_replica() == 1) {
    ClearAll(*body->graph);
    return Status();
  }
  SetEach(body->arg_nodes, metadata.args());
  SetEach(body->ret_nodes, metadata.retvals());
  return Status();
}

}  // namespace torus::tensorflow
