#include "tpu/tensorflow/adapter/cores.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tpu/tensorflow/adapter/shapes.h"
#include "xla/hlo/ir/hlo_sharding.h"
#include "xla/shape_util.h"

namespace torus::tensorflow {
namespace {

using ::tensorflow::TensorShapeProto;
using ::tensorflow::XlaCompilationResult;
using ::tensorflow::tpu::TPUCompileMetadataProto;

// The shape of an array's part on a core, or nothing where the core has none of it.
Result<std::optional<xla::Shape>> ShapeOn(int core, const xla::OpSharding& sharding,
                                          const xla::Shape& shape) {
  const auto parsed = xla::HloSharding::FromProto(sharding);
  if (!parsed.ok()) return InvalidArgument("{}", std::string(parsed.status().message()));
  if (parsed->IsReplicated()) return shape;
  if (parsed->HasUniqueDevice()) {
    if (parsed->GetUniqueDevice() != core) return std::nullopt;
    return shape;
  }
  return OnDevice(parsed->TileShape(shape, core));
}

void AddTensorShape(const xla::Shape& shape, ::tensorflow::TPUExecutableInfoProto* info) {
  auto* proto = info->add_output_tensor_shapes();
  for (const int64_t size : shape.dimensions()) proto->add_dim()->set_size(size);
}

// A part while it is put together.
class Builder {
 public:
  Builder(const TPUCompileMetadataProto& metadata, const XlaCompilationResult& result, int core)
      : metadata_(metadata), result_(result), core_(core) {
    for (const auto& update : result.resource_updates) updates_[update.input_index] = &update;
  }

  Result<CorePart> Build() {
    TORUS_RETURN_IF_ERROR(Inputs());
    TORUS_RETURN_IF_ERROR(Outputs());
    *part_.info.add_input_shapes() = xla::ShapeUtil::MakeTupleShape(input_shapes_).ToProto();
    *part_.info.mutable_output_shape() = xla::ShapeUtil::MakeTupleShape(output_shapes_).ToProto();
    return std::move(part_);
  }

 private:
  Result<std::optional<xla::Shape>> Place(const xla::OpSharding* sharding,
                                          const xla::Shape& shape) const {
    if (sharding == nullptr || metadata_.num_cores_per_replica() == 1) return shape;
    return ShapeOn(core_, *sharding, shape);
  }
  const xla::OpSharding* ShardingOf(int argument) const {
    const auto& described = metadata_.args(argument);
    return described.has_sharding() ? &described.sharding() : nullptr;
  }

  // XLA's parameters are TensorFlow's arguments, without the constants.
  Status Inputs() {
    for (size_t i = 0; i < result_.input_mapping.size(); ++i) {
      const int argument = result_.input_mapping[i];
      TORUS_ASSIGN_OR_RETURN(const auto shape,
                             Place(ShardingOf(argument),
                                   result_.xla_input_shapes[0].tuple_shapes(static_cast<int>(i))));
      if (!shape) continue;
      if (metadata_.args(argument).kind() == TPUCompileMetadataProto::Arg::VARIABLE) {
        auto* variable = part_.info.add_variable_indices();
        variable->set_index(static_cast<int>(part_.inputs.size()));
        variable->set_updated(updates_.contains(argument));
      }
      part_.inputs.push_back(static_cast<int>(i));
      input_shapes_.push_back(*shape);
    }
    return Status();
  }

  // What the function returns, then the updated variables.
  Status Outputs() {
    int output = 0;
    for (size_t i = 0; i < result_.outputs.size(); ++i, ++output) {
      const auto* sharding =
          static_cast<int>(i) < metadata_.retvals_size() && metadata_.retvals(i).has_sharding()
              ? &metadata_.retvals(static_cast<int>(i)).sharding()
              : nullptr;
      TORUS_RETURN_IF_ERROR(AddOutput(output, sharding));
    }
    for (const auto& update : result_.resource_updates) {
      const auto before = part_.outputs.size();
      TORUS_RETURN_IF_ERROR(AddOutput(output++, ShardingOf(update.input_index)));
      if (part_.outputs.size() > before) part_.modifies_variables |= update.modified;
    }
    return Status();
  }

  Status AddOutput(int output, const xla::OpSharding* sharding) {
    TORUS_ASSIGN_OR_RETURN(const auto shape,
                           Place(sharding, result_.xla_output_shape.tuple_shapes(output)));
    if (!shape) return Status();
    part_.outputs.push_back(output);
    output_shapes_.push_back(*shape);
    AddTensorShape(*shape, &part_.info);
    return Status();
  }

  const TPUCompileMetadataProto& metadata_;
  const XlaCompilationResult& result_;
  const int core_;
  std::map<int, const ::tensorflow::XlaResourceUpdate*> updates_;  // by argument
  CorePart part_;
  std::vector<xla::Shape> input_shapes_, output_shapes_;
};

}  // namespace

Result<std::vector<CorePart>> PartsOfCores(const TPUCompileMetadataProto& metadata,
                                           const XlaCompilationResult& result) {
  const int cores = metadata.use_spmd_for_xla_partitioning() ? 1 : metadata.num_cores_per_replica();
  std::vector<CorePart> parts;
  for (int core = 0; core < cores; ++core) {
    TORUS_ASSIGN_OR_RETURN(auto part, Builder(metadata, result, core).Build());
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace torus::tensorflow
