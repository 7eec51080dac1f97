// The compilation of what a program asks of its host: XlaHostCompute, XlaSendToHost and
// XlaRecvFromHost become sends and receives, named as the host's side names them. (TensorFlow's
// wheels have the operations and what makes them, and no kernels for them.)
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/compiler/tf2xla/side_effect_util.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "tensorflow/compiler/tf2xla/xla_helpers.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/graph/algorithm.h"
#include "xla/side_effect_util.h"
#if TORUS_TENSORFLOW_MINOR < 19
#include "xla/client/sharding_builder.h"
#include "xla/client/xla_builder.h"
#else
#include "xla/hlo/builder/sharding_builder.h"
#include "xla/hlo/builder/xla_builder.h"
#endif

namespace torus::tensorflow {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::DataTypeVector;
using ::tensorflow::NameAttrList;
using ::tensorflow::Node;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::TensorShape;
using ::tensorflow::XlaOpKernel;
using ::tensorflow::XlaOpKernelContext;

constexpr char kDeviceType[] = "XLA_TPU_JIT";

absl::StatusOr<xla::Shape> ToXla(DataType type, const TensorShape& shape) {
  xla::Shape made;
  TF_RETURN_IF_ERROR(TensorShapeToXLAShape(type, shape, &made));
  return made;
}

// What a send or a receive says of itself.
xla::FrontendAttributes Named(const std::string& name) {
  xla::FrontendAttributes attributes;
  (*attributes.mutable_map())[xla::kXlaHostTransferRendezvousNameAttr] = name;
  (*attributes.mutable_map())[xla::kXlaHostTransferHandlerNameAttr] =
      xla::kXlaHostTransferTfRendezvousHandlerName;
  return attributes;
}

// What the kernels have in common: where they stand in the order of effects, and transfers.
class HostOp : public XlaOpKernel {
 public:
  explicit HostOp(OpKernelConstruction* ctx) : XlaOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr(::tensorflow::kXlaTokenInputNodesAttrName, &after_));
    OP_REQUIRES(ctx, !after_.empty(),
                absl::InternalError(absl::StrCat(name(), " follows nothing, not even a start")));
    if (!ctx->GetAttr(::tensorflow::kXlaOriginalOutsideCompilationNodeName, &original_).ok())
      original_ = name();
  }

 protected:
  absl::StatusOr<xla::XlaOp> Begin(XlaOpKernelContext* ctx) const {
    std::vector<xla::XlaOp> tokens;
    for (const auto& node : after_) {
      TF_ASSIGN_OR_RETURN(const auto token, ctx->compiler()->GetNodeToken(node));
      tokens.push_back(token);
    }
    return AfterAll(ctx->builder(), tokens);
  }
  absl::Status End(XlaOpKernelContext* ctx, xla::XlaOp token) const {
    return ctx->compiler()->SetNodeToken(original_, token);
  }

  static absl::StatusOr<TensorShape> ShapeOf(XlaOpKernelContext* ctx, int input) {
    TF_ASSIGN_OR_RETURN(const auto shape, ctx->InputXlaShape(input));
    TensorShape made;
    TF_RETURN_IF_ERROR(XLAShapeToTensorShape(shape, &made));
    return made;
  }

  // Its token.
  static absl::StatusOr<xla::XlaOp> Send(XlaOpKernelContext* ctx, const std::string& name,
                                         xla::XlaOp token, int input, DataType type) {
    const xla::XlaScopedFrontendAttributesAssignment named(ctx->builder(), Named(name));
    xla::ChannelHandle channel;
    TF_RETURN_IF_ERROR(ctx->compiler()->GetDeviceToHostChannelHandle(name, &channel));
    TF_ASSIGN_OR_RETURN(const auto sent, ShapeOf(ctx, input));
    TF_ASSIGN_OR_RETURN(const auto shape, ToXla(type, sent));
    return SendToHost(ctx->Input(input), token, shape, channel);
  }

  // Its token.
  static absl::StatusOr<xla::XlaOp> Receive(XlaOpKernelContext* ctx, const std::string& name,
                                            xla::XlaOp token, int output, DataType type,
                                            const TensorShape& shape) {
    xla::XlaOp received;
    {
      const xla::XlaScopedFrontendAttributesAssignment named(ctx->builder(), Named(name));
      xla::ChannelHandle channel;
      TF_RETURN_IF_ERROR(ctx->compiler()->GetHostToDeviceChannelHandle(name, &channel));
      TF_ASSIGN_OR_RETURN(const auto made, ToXla(type, shape));
      received = RecvFromHost(token, made, channel);
    }
    ctx->SetOutput(output, GetTupleElement(received, 0));
    return GetTupleElement(received, 1);
  }

 private:
  std::vector<std::string> after_;  // operations
  std::string original_;
};

// Sends all inputs, then receives all outputs.
class HostComputeOp : public HostOp {
 public:
  explicit HostComputeOp(OpKernelConstruction* ctx) : HostOp(ctx) {
    std::string key;
    NameAttrList inference;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("key", &key));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("send_key", &send_key_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("recv_key", &receive_key_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tpu_core", &core_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("Tinputs", &inputs_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("Toutputs", &outputs_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shape_inference_graph", &inference));
    if (send_key_.empty()) send_key_ = key;
    if (receive_key_.empty()) receive_key_ = key;
    if (inference.name().empty()) {
      OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
      return;
    }
    const auto* library = ctx->function_library()->GetFunctionLibraryDefinition();
    const auto* function = library->Find(inference.name());
    OP_REQUIRES(ctx, function != nullptr,
                absl::InternalError(absl::StrCat("no function ", inference.name())));
    OP_REQUIRES_OK(
        ctx, FunctionDefToBodyHelper(*function, ::tensorflow::AttrSlice(&inference.attr()), library,
                                     &host_));
  }

  void Compile(XlaOpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Build(ctx)); }

 private:
  absl::Status Build(XlaOpKernelContext* ctx) {
    auto* builder = ctx->builder();
    const xla::XlaScopedShardingAssignment on_core(
        builder, xla::sharding_builder::AssignDevice(static_cast<int>(core_)));
    TF_ASSIGN_OR_RETURN(auto token, Begin(ctx));
    std::vector<xla::XlaOp> sent, received;
    std::vector<TensorShape> shapes;
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
      TF_ASSIGN_OR_RETURN(shapes.emplace_back(), ShapeOf(ctx, i));
      TF_ASSIGN_OR_RETURN(
          const auto each,
          Send(ctx, ::tensorflow::GetDeviceToHostChannelName(send_key_, i), token, i, inputs_[i]));
      sent.push_back(each);
    }
    if (!sent.empty()) {
      token = AfterAll(builder, sent);
      TF_RETURN_IF_ERROR(ctx->compiler()->SetDeviceToHostMetadata(send_key_, inputs_, shapes));
    }
    TF_ASSIGN_OR_RETURN(const auto outputs, OutputShapes(ctx));
    for (int i = 0; i < static_cast<int>(outputs_.size()); ++i) {
      TF_ASSIGN_OR_RETURN(const auto each,
                          Receive(ctx, ::tensorflow::GetHostToDeviceChannelName(receive_key_, i),
                                  token, i, outputs_[i], outputs[i]));
      received.push_back(each);
    }
    if (!received.empty()) {
      token = AfterAll(builder, received);
      TF_RETURN_IF_ERROR(ctx->compiler()->SetHostToDeviceMetadata(receive_key_, outputs_, outputs));
    }
    return End(ctx, token);
  }

  // As TensorFlow says, or as they follow, in the graph of the host's side, from what is sent.
  absl::StatusOr<std::vector<TensorShape>> OutputShapes(XlaOpKernelContext* ctx) const {
    auto shapes = shapes_;
    if (host_ != nullptr) {
      TF_ASSIGN_OR_RETURN(shapes, Infer(ctx));
    }
    if (shapes.size() == outputs_.size()) return shapes;
    return absl::InvalidArgumentError(absl::StrCat(name(), ": ", shapes.size(), " shapes of ",
                                                   outputs_.size(), " results of the host"));
  }

  absl::StatusOr<std::vector<TensorShape>> Infer(XlaOpKernelContext* ctx) const {
    auto& graph = *host_->graph;
    FixupSourceAndSinkEdges(&graph);
    ::tensorflow::ShapeRefiner refiner(graph.versions(), graph.op_registry());
    refiner.set_function_library_for_shape_inference(
        ctx->function_library()->GetFunctionLibraryDefinition());
    std::vector<Node*> nodes;
    GetReversePostOrder(graph, &nodes);
    std::vector<TensorShape> shapes;
    for (auto* node : nodes) {
      TF_RETURN_IF_ERROR(refiner.AddNode(node));
      if (node->type_string() == "_XlaRecvAtHost") {
        TF_RETURN_IF_ERROR(SetReceived(ctx, *node, refiner.GetContext(node)));
      } else if (node->type_string() == "_XlaSendFromHost") {
        auto& inferred = *refiner.GetContext(node);
        for (int i = 0; i < node->num_inputs() - 1; ++i) {  // the last is a key
          if (!inferred.FullyDefined(inferred.input(i)))
            return absl::InvalidArgumentError(
                absl::StrCat("the shape of the host's result ", i, " of ", name(),
                             " is not known, only ", inferred.DebugString(inferred.input(i)),
                             ": give it one there, by tf.ensure_shape"));
          ::tensorflow::TensorShapeProto proto;
          inferred.ShapeHandleToProto(inferred.input(i), &proto);
          shapes.emplace_back(proto);
        }
      }
    }
    return shapes;
  }

  static absl::Status SetReceived(XlaOpKernelContext* ctx, const Node& node,
                                  ::tensorflow::shape_inference::InferenceContext* inferred) {
    std::string key;
    std::vector<TensorShape> shapes;
    TF_RETURN_IF_ERROR(GetNodeAttr(node.attrs(), "key", &key));
    TF_RETURN_IF_ERROR(ctx->compiler()->GetDeviceToHostShapes(key, &shapes));
    for (int i = 0; i < node.num_outputs() && i < static_cast<int>(shapes.size()); ++i) {
      ::tensorflow::shape_inference::ShapeHandle shape;
      TF_RETURN_IF_ERROR(inferred->MakeShapeFromTensorShape(shapes[i], &shape));
      inferred->set_output(i, shape);
    }
    return absl::OkStatus();
  }

  std::string send_key_, receive_key_;
  int64_t core_ = 0;
  DataTypeVector inputs_, outputs_;
  std::vector<TensorShape> shapes_;
  std::unique_ptr<::tensorflow::FunctionBody> host_;  // null: the shapes are known
};

class SendToHostOp : public HostOp {
 public:
  explicit SendToHostOp(OpKernelConstruction* ctx) : HostOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("Tinput", &type_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("key", &key_));
  }
  void Compile(XlaOpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Build(ctx)); }

 private:
  absl::Status Build(XlaOpKernelContext* ctx) {
    TF_ASSIGN_OR_RETURN(const auto token, Begin(ctx));
    TF_ASSIGN_OR_RETURN(const auto sent, Send(ctx, key_, token, 0, type_));
    return End(ctx, sent);
  }

  DataType type_;
  std::string key_;
};

class RecvFromHostOp : public HostOp {
 public:
  explicit RecvFromHostOp(OpKernelConstruction* ctx) : HostOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("Toutput", &type_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shape", &shape_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("key", &key_));
  }
  void Compile(XlaOpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Build(ctx)); }

 private:
  absl::Status Build(XlaOpKernelContext* ctx) {
    TF_ASSIGN_OR_RETURN(const auto token, Begin(ctx));
    TF_ASSIGN_OR_RETURN(const auto received, Receive(ctx, key_, token, 0, type_, shape_));
    return End(ctx, received);
  }

  DataType type_;
  TensorShape shape_;
  std::string key_;
};

REGISTER_XLA_OP(Name("XlaHostCompute").Device(kDeviceType), HostComputeOp);
REGISTER_XLA_OP(Name("XlaSendToHost").Device(kDeviceType), SendToHostOp);
REGISTER_XLA_OP(Name("XlaRecvFromHost").Device(kDeviceType), RecvFromHostOp);

}  // namespace
}  // namespace torus::tensorflow
