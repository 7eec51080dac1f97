// Instructions, put together.
#include "tpu/program/maker.h"

#include <numeric>

#include "tpu/program/edit.h"
#include "tpu/program/wire.h"

namespace torus::program {
namespace {

// xla.HloInstructionProto
constexpr protozero::pbf_tag_type kLiteral = 8, kDotDimensionNumbers = 30,
                                  kGatherDimensionNumbers = 33, kGatherSliceSizes = 34,
                                  kSharding = 40, kComparisonDirection = 63, kComparisonType = 72;
// xla.LiteralProto
constexpr protozero::pbf_tag_type kShape = 1, kS64s = 5, kF32s = 8;

std::string S64s(const std::vector<int64_t>& values) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_packed_int64(kS64s, values.begin(), values.end());
  return bytes;
}

}  // namespace

Maker::Maker(const HloModule& module, const HloComputation& computation,
             const HloInstruction& instruction, std::string_view word)
    : next_id_(NewId(module, computation)), word_(word) {
  if (const auto sharding = ShardingOf(instruction)) {
    protozero::pbf_writer(others_).add_message(kSharding, sharding->data(), sharding->size());
  }
}

int64_t Maker::Make(std::string opcode, HloShape shape, Dimensions operands,
                    Dimensions dimensions) {
  HloInstruction made{.id = next_id_++, .opcode = std::move(opcode), .shape = std::move(shape)};
  made.name = fmt::format("{}.{}.{}", word_, made.opcode, made.id);
  made.operands = std::move(operands);
  made.dimensions = std::move(dimensions);
  made.others = others_;
  made_.push_back(std::move(made));
  return made_.back().id;
}

int64_t Maker::Compare(const char* direction, const HloShape& of, int64_t a, int64_t b) {
  const int64_t id = Make("compare", ArrayShape(ElementType::kPred, of.dimensions), {a, b});
  protozero::pbf_writer others(made_.back().others);
  others.add_string(kComparisonDirection, direction);
  others.add_string(kComparisonType, "SIGNED");
  return id;
}

// A literal of s64, converted: each type has a literal of its own.
int64_t Maker::Fill(ElementType type, Dimensions dimensions, int64_t value) {
  int64_t filled = Literal(ArrayShape(ElementType::kS64, {}), S64s({value}));
  if (type != ElementType::kS64) filled = Make("convert", ArrayShape(type, {}), {filled});
  return Make("broadcast", ArrayShape(type, std::move(dimensions)), {filled});
}

int64_t Maker::Constant(const std::vector<int64_t>& values) {
  return Literal(ArrayShape(ElementType::kS64, {std::ssize(values)}), S64s(values));
}

int64_t Maker::Constant(const std::vector<float>& values) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_packed_float(kF32s, values.begin(), values.end());
  return Literal(ArrayShape(ElementType::kF32, {std::ssize(values)}), bytes);
}

int64_t Maker::Literal(HloShape shape, std::string_view values) {
  std::string literal;
  protozero::pbf_writer(literal).add_message(kShape, WriteShape(shape));
  literal += values;
  const int64_t id = Make("constant", std::move(shape), {});
  protozero::pbf_writer(made_.back().others).add_message(kLiteral, literal);
  return id;
}

int64_t Maker::Gather(int64_t array, int64_t index, HloShape shape, int64_t at,
                      const Dimensions& slice) {
  auto others = Iota(slice.size(), 0);
  others.erase(others.begin() + at);
  const int64_t id = Make("gather", std::move(shape), {array, index});
  protozero::pbf_writer writer(made_.back().others);
  {
    protozero::pbf_writer numbers(writer, kGatherDimensionNumbers);
    wire::AddInts(numbers, 1, others);  // offset_dims
    wire::AddInts(numbers, 2, {at});    // collapsed_slice_dims
    wire::AddInts(numbers, 3, {at});    // start_index_map
    wire::AddInt(numbers, 4, 1);        // index_vector_dim
  }
  wire::AddInts(writer, kGatherSliceSizes, slice);
  return id;
}

int64_t Maker::Dot(HloShape shape, int64_t lhs, int64_t rhs, const DotDimensions& dimensions) {
  const int64_t id = Make("dot", std::move(shape), {lhs, rhs});
  SetDotDimensions(made_.back(), dimensions);
  return id;
}

size_t Maker::PutBefore(HloComputation& computation, size_t at) {
  computation.instructions.insert(computation.instructions.begin() + static_cast<ptrdiff_t>(at),
                                  std::make_move_iterator(made_.begin()),
                                  std::make_move_iterator(made_.end()));
  const size_t count = made_.size();
  made_.clear();
  return count;
}

void SetDotDimensions(HloInstruction& dot, const DotDimensions& dimensions) {
  dot.others = wire::Without(dot.others, kDotDimensionNumbers);
  protozero::pbf_writer others(dot.others);
  protozero::pbf_writer numbers(others, kDotDimensionNumbers);
  wire::AddInts(numbers, 1, dimensions.lhs_contracting);
  wire::AddInts(numbers, 2, dimensions.rhs_contracting);
  wire::AddInts(numbers, 3, dimensions.lhs_batch);
  wire::AddInts(numbers, 4, dimensions.rhs_batch);
}

Maker::Dimensions Iota(size_t count, int64_t first) {
  Maker::Dimensions dimensions(count);
  std::iota(dimensions.begin(), dimensions.end(), first);
  return dimensions;
}

}  // namespace torus::program
