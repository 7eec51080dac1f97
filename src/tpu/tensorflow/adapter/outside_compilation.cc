// Operations that only a CPU can run are computed by the host, without the program's asking.
//
// With tf.config.set_soft_device_placement(True), upstream's TPUs do so with what has no kernel for
// them: tf.print, summaries, all that handles strings. There the MLIR bridge finds these
// operations; the bridge that the wheels run has what moves them to the host (outside compilation),
// but not what finds them. That is this pass, which runs before it: it gives the attribute that
// tf.compat.v1.tpu.outside_compilation gives.
//
// Operations with the same attribute are one computation of the host. Those that hand each other
// what a TPU cannot hold, such as a string, have to be one; those that merely follow one another
// become one unless a TPU's operation would have to run both after it and before it.
#include <dlfcn.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/compiler/tf2xla/tf2xla_defs.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/graph.h"

namespace torus::tensorflow {
namespace {

using ::tensorflow::AttrValue;
using ::tensorflow::DataType;
using ::tensorflow::Edge;
using ::tensorflow::FunctionDef;
using ::tensorflow::FunctionLibraryDefinition;
using ::tensorflow::GetNodeAttr;
using ::tensorflow::Graph;
using ::tensorflow::GraphOptimizationPass;
using ::tensorflow::GraphOptimizationPassOptions;
using ::tensorflow::NameAttrList;
using ::tensorflow::Node;
using ::tensorflow::OptimizationPassRegistry;

constexpr char kDeviceType[] = "XLA_TPU_JIT";
const std::string kCluster(::tensorflow::kTpuReplicateAttr);
const std::string kOutside(::tensorflow::kXlaOutsideCompilationAttr);

// What a TPU cannot hold.
bool IsOfHost(DataType type) {
  return type == ::tensorflow::DT_STRING || type == ::tensorflow::DT_VARIANT;
}

bool HasKernel(const Node& node) {
  const ::tensorflow::KernelDef* kernel = nullptr;
  return FindKernelDef(::tensorflow::DeviceType(kDeviceType), node.def(), &kernel, nullptr).ok();
}

// What TensorFlow replaces before anything is compiled.
bool IsFrame(const Node& node) {
  static const auto& kOps =
      *new std::set<std::string>{"TPUReplicateMetadata",   "TPUReplicatedInput",
                                 "TPUReplicatedOutput",    "TPUPartitionedInput",
                                 "TPUPartitionedInputV2",  "TPUPartitionedOutput",
                                 "TPUPartitionedOutputV2", "Placeholder"};
  return !node.IsOp() || node.IsArg() || node.IsRetval() || kOps.contains(node.type_string());
}

// ---- Which operations, in which computations of the host

class Groups {
 public:
  explicit Groups(const std::vector<Node*>& nodes) {
    for (auto* node : nodes) members_.insert(node);
    for (auto* node : nodes) {
      if (!node->IsConstant() && !HasKernel(*node)) Add(node);
    }
    TakeUsersOfWhatIsOfHost();
    TakeConstants();
    JoinNeighbours();
  }

  // By node, its computation's number.
  std::map<Node*, int> Number() const {
    std::map<Node*, int> numbers, of_root;
    std::map<int, Node*> by_id;  // for an order that does not change from run to run
    for (const auto& [node, parent] : parent_) by_id[node->id()] = node;
    for (const auto& [id, node] : by_id) {
      const int next = static_cast<int>(of_root.size());
      numbers[node] = of_root.emplace(Root(node), next).first->second;
    }
    return numbers;
  }

 private:
  bool Has(Node* node) const { return parent_.contains(node); }
  void Add(Node* node) { parent_.emplace(node, node); }
  Node* Root(Node* node) const {
    while (parent_.at(node) != node) node = parent_.at(node);
    return node;
  }
  void Join(Node* a, Node* b) { parent_[Root(a)] = Root(b); }

  // A value that is of the host has its maker and its users there, in one computation.
  void TakeUsersOfWhatIsOfHost() {
    std::vector<Node*> queue;
    for (const auto& [node, parent] : parent_) queue.push_back(node);
    while (!queue.empty()) {
      auto* node = queue.back();
      queue.pop_back();
      for (const auto* edge : node->out_edges()) {
        auto* user = edge->dst();
        if (edge->IsControlEdge() || !IsOfHost(node->output_type(edge->src_output()))) continue;
        if (!members_.contains(user)) continue;
        if (!Has(user)) {
          Add(user);
          queue.push_back(user);
        }
        Join(node, user);
      }
    }
  }

  // A constant that only one computation uses is a part of it: it need not be sent.
  void TakeConstants() {
    for (auto* node : members_) {
      if (!node->IsConstant()) continue;
      std::set<Node*> roots;
      bool elsewhere = false;
      for (const auto* edge : node->out_edges()) {
        if (edge->IsControlEdge()) continue;
        if (Has(edge->dst()) && edge->dst() != node)
          roots.insert(Root(edge->dst()));
        else
          elsewhere = true;
      }
      if (roots.empty() || (!IsOfHost(node->output_type(0)) && (elsewhere || roots.size() > 1)))
        continue;
      Add(node);
      for (auto* root : roots) Join(root, node);
    }
  }

  void JoinNeighbours() {
    for (auto* node : members_) {
      if (!Has(node)) continue;
      for (const auto* edge : node->out_edges()) {
        auto* next = edge->dst();
        if (Has(next) && Root(node) != Root(next) && !HasDetour(node, next)) Join(node, next);
      }
    }
  }

  // Whether the computation of `to` also waits for that of `from` by way of others.
  bool HasDetour(Node* from, Node* to) const {
    std::set<Node*> seen;
    std::vector<Node*> queue;
    const auto visit = [&](Node* node) {
      if (members_.contains(node) && seen.insert(node).second) queue.push_back(node);
    };
    const auto followers = [&](Node* root, const auto& visit_each) {
      for (const auto& [node, parent] : parent_) {
        if (Root(node) != root) continue;
        for (const auto* edge : node->out_edges()) visit_each(edge->dst());
      }
    };
    const auto in = [this](Node* node, Node* other) {
      return Has(node) && Root(node) == Root(other);
    };
    followers(Root(from), [&](Node* next) {
      if (!in(next, from) && !in(next, to)) visit(next);
    });
    while (!queue.empty()) {
      auto* node = queue.back();
      queue.pop_back();
      if (in(node, to)) return true;
      if (Has(node))
        followers(Root(node), visit);
      else
        for (const auto* edge : node->out_edges()) visit(edge->dst());
    }
    return false;
  }

  std::set<Node*, ::tensorflow::NodeComparatorID> members_;
  std::map<Node*, Node*> parent_;  // of those for the host
};

// ---- Marks

class Marker {
 public:
  explicit Marker(FunctionLibraryDefinition* library) : library_(library) {}

  // Marks these nodes of a graph; the functions that they call are replaced by marked ones.
  absl::Status Mark(const std::vector<Node*>& nodes) {
    std::map<std::string, std::string> marks;
    std::map<std::string, NameAttrList> calls;
    if (const auto status = Find(nodes, &marks, &calls); !status.ok()) return status;
    for (auto* node : nodes) {
      if (const auto mark = marks.find(node->name()); mark != marks.end())
        node->AddAttr(kOutside, mark->second);
      for (const auto& [attribute, value] : Functions(*node)) {
        const auto call = calls.find(Key(node->name(), attribute));
        if (call == calls.end()) continue;
        node->ClearAttr(attribute);
        node->AddAttr(attribute, call->second);
      }
    }
    return absl::OkStatus();
  }

 private:
  static std::string Key(const std::string& node, const std::string& attribute) {
    return node + ":" + attribute;
  }

  // The attributes of a node that are functions which it runs.
  static std::map<std::string, NameAttrList> Functions(const Node& node) {
    std::map<std::string, NameAttrList> functions;
    for (const auto& [name, value] : node.attrs()) {
      const bool runs = name == "f" || name == "then_branch" || name == "else_branch" ||
                        name == "cond" || name == "body";
      if (runs && value.value_case() == AttrValue::kFunc) functions[name] = value.func();
    }
    return functions;
  }

  // By name the marks of nodes, and by node and attribute the functions to be called instead.
  absl::Status Find(const std::vector<Node*>& all, std::map<std::string, std::string>* marks,
                    std::map<std::string, NameAttrList>* calls) {
    std::vector<Node*> nodes;
    for (auto* node : all) {
      if (!IsFrame(*node) && !HasNodeAttr(node->def(), kOutside)) nodes.push_back(node);
    }
    const auto numbers = Groups(nodes).Number();
    std::map<int, std::string> names;
    for (const auto& [node, number] : numbers) {
      if (!names.contains(number)) names[number] = "auto" + std::to_string(next_++);
      (*marks)[node->name()] = names[number];
    }
    for (auto* node : nodes) {
      if (numbers.contains(node)) continue;
      for (auto& [attribute, function] : Functions(*node)) {
        const auto former = function.name();
        if (const auto status = MarkFunction(&function); !status.ok()) return status;
        if (function.name() != former) (*calls)[Key(node->name(), attribute)] = function;
      }
    }
    return absl::OkStatus();
  }

  // Makes it a copy with marks, where there are any.
  absl::Status MarkFunction(NameAttrList* function) {
    const FunctionDef* definition = library_->Find(function->name());
    if (definition == nullptr) return absl::OkStatus();
    std::unique_ptr<::tensorflow::FunctionBody> body;
    const auto status = FunctionDefToBodyHelper(
        *definition, ::tensorflow::AttrSlice(&function->attr()), library_, &body);
    if (!status.ok()) return status;
    std::vector<Node*> nodes;
    for (auto* node : body->graph->op_nodes()) nodes.push_back(node);
    std::map<std::string, std::string> marks;
    std::map<std::string, NameAttrList> calls;
    if (const auto found = Find(nodes, &marks, &calls); !found.ok()) return found;
    if (marks.empty() && calls.empty()) return absl::OkStatus();
    FunctionDef copy = *definition;
    function->set_name(library_->UniqueFunctionName(function->name() + "_on_host"));
    copy.mutable_signature()->set_name(function->name());
    for (auto& node : *copy.mutable_node_def()) {
      if (const auto mark = marks.find(node.name()); mark != marks.end())
        (*node.mutable_attr())[kOutside].set_s(mark->second);
      for (auto& [attribute, value] : *node.mutable_attr()) {
        const auto call = calls.find(Key(node.name(), attribute));
        if (call != calls.end()) *value.mutable_func() = call->second;
      }
    }
    return library_->AddFunctionDef(std::move(copy));
  }

  FunctionLibraryDefinition* const library_;
  int next_ = 0;
};

class AutomaticOutsideCompilation : public GraphOptimizationPass {
 public:
  absl::Status Run(const GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr || options.flib_def == nullptr)
      return absl::OkStatus();
    std::map<std::string, std::vector<Node*>> clusters;
    for (auto* node : (*options.graph)->op_nodes()) {
      bool soft = false;
      if (node->type_string() == "TPUReplicateMetadata" &&
          GetNodeAttr(node->attrs(), "allow_soft_placement", &soft).ok() && soft)
        clusters[ClusterOf(*node)];
    }
    if (clusters.empty()) return absl::OkStatus();
    ::tensorflow::XlaOpRegistry::RegisterCompilationKernels();
    for (auto* node : (*options.graph)->op_nodes()) {
      const auto cluster = clusters.find(ClusterOf(*node));
      if (cluster != clusters.end()) cluster->second.push_back(node);
    }
    for (const auto& [name, nodes] : clusters) {
      if (const auto status = Marker(options.flib_def).Mark(nodes); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  static std::string ClusterOf(const Node& node) {
    std::string name;
    GetNodeAttr(node.attrs(), kCluster, &name).IgnoreError();
    return name.empty() ? "none" : name;
  }
};

// Before 2.20 both of TensorFlow's libraries have a registry, and the framework's is the one that
// is read; by its name alone we would find the other.
OptimizationPassRegistry* TheRegistry() {
  void* const framework = dlopen("libtensorflow_framework.so.2", RTLD_NOLOAD | RTLD_NOW);
  if (framework == nullptr) return OptimizationPassRegistry::Global();
  void* const global = dlsym(framework, "_ZN10tensorflow24OptimizationPassRegistry6GlobalEv");
  dlclose(framework);  // it stays: the adapter needs it
  return global == nullptr ? OptimizationPassRegistry::Global()
                           : reinterpret_cast<OptimizationPassRegistry* (*)()>(global)();
}

// TensorFlow encapsulates clusters in phase 34.
const bool registered = [] {
  TheRegistry()->Register(OptimizationPassRegistry::PRE_PLACEMENT, 33,
                          std::make_unique<AutomaticOutsideCompilation>());
  return true;
}();

}  // namespace
}  // namespace torus::tensorflow
