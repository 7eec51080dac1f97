// ragged-dot becomes a dot of a left side that is masked by group, which every engine has.
//
// The rows of the ragged dimension belong to groups of the sizes given, one after the other; rows
// behind the last group belong to none and count as zeros. With masked[g, ...] the left side with
// all but group g's rows zero:
//   ragged is a free dimension of the left side: out[m, n] = sum over g, k of
//     masked[g, m, k] * right[g, k, n]
//   ragged is contracted: out[g, m, n] = sum over k of masked[g, m, k] * right[k, n]
// The work is that of the dense dot times the number of groups, as in JAX's own expansion.
#include <algorithm>
#include <numeric>

#include "tpu/program/edit.h"
#include "tpu/program/hlo_attributes.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/wire.h"

namespace torus::program {
namespace {

// xla.HloInstructionProto
constexpr protozero::pbf_tag_type kLiteral = 8, kDotDimensionNumbers = 30,
                                  kComparisonDirection = 63, kComparisonType = 72,
                                  kRaggedDotDimensionNumbers = 90;

using Dimensions = std::vector<int64_t>;

// Makes instructions that stand before the ragged dot.
class Maker {
 public:
  Maker(const HloModule& module, const HloComputation& computation)
      : next_id_(NewId(module, computation)) {}

  std::vector<HloInstruction> Take() { return std::move(made_); }

  int64_t Make(std::string opcode, HloShape shape, Dimensions operands,
               Dimensions dimensions = {}) {
    HloInstruction made{.id = next_id_++, .opcode = std::move(opcode), .shape = std::move(shape)};
    made.name = fmt::format("ragged.{}.{}", made.opcode, made.id);
    made.operands = std::move(operands);
    made.dimensions = std::move(dimensions);
    made_.push_back(std::move(made));
    return made_.back().id;
  }

  int64_t Compare(const char* direction, const HloShape& of, int64_t a, int64_t b) {
    const int64_t id = Make("compare", ArrayShape(ElementType::kPred, of.dimensions), {a, b});
    protozero::pbf_writer others(made_.back().others);
    others.add_string(kComparisonDirection, direction);
    others.add_string(kComparisonType, "SIGNED");
    return id;
  }

  // A scalar 0, as every type can be made of.
  int64_t Zero(ElementType type) {
    const auto scalar = ArrayShape(ElementType::kS32, {});
    const int64_t zero = Make("constant", scalar, {});
    std::string literal;
    protozero::pbf_writer writer(literal);
    writer.add_message(1, WriteShape(scalar));  // xla.LiteralProto.shape, .s32s
    const int32_t value = 0;
    writer.add_packed_int32(4, &value, &value + 1);
    protozero::pbf_writer(made_.back().others).add_message(kLiteral, literal);
    return Make("convert", ArrayShape(type, {}), {zero});
  }

  HloInstruction& last() { return made_.back(); }

 private:
  int64_t next_id_;
  std::vector<HloInstruction> made_;
};

void SetDotDimensions(HloInstruction& dot, const DotDimensions& dimensions) {
  dot.others = wire::Without(dot.others, kDotDimensionNumbers);
  protozero::pbf_writer others(dot.others);
  protozero::pbf_writer numbers(others, kDotDimensionNumbers);
  wire::AddInts(numbers, 1, dimensions.lhs_contracting);
  wire::AddInts(numbers, 2, dimensions.rhs_contracting);
  wire::AddInts(numbers, 3, dimensions.lhs_batch);
  wire::AddInts(numbers, 4, dimensions.rhs_batch);
}

Dimensions Iota(size_t count, int64_t first) {
  Dimensions dimensions(count);
  std::iota(dimensions.begin(), dimensions.end(), first);
  return dimensions;
}

Dimensions Prepend(int64_t first, Dimensions rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

Dimensions Shift(Dimensions dimensions) {
  for (int64_t& dimension : dimensions) ++dimension;
  return dimensions;
}

// Where each group ends: its size and those before it, by a product with a triangle of ones.
int64_t MakeEnds(Maker& make, int64_t sizes, int64_t groups) {
  const auto square = ArrayShape(ElementType::kS32, {groups, groups});
  const int64_t row = make.Make("iota", square, {}, {0});
  const int64_t column = make.Make("iota", square, {}, {1});
  const int64_t before = make.Compare("LE", square, row, column);
  const int64_t ones = make.Make("convert", square, {before});
  const int64_t ends = make.Make("dot", ArrayShape(ElementType::kS32, {groups}), {sizes, ones});
  SetDotDimensions(make.last(), {.lhs_contracting = {0}, .rhs_contracting = {0}});
  return ends;
}

// masked[g, ...] of the left side.
int64_t MakeMasked(Maker& make, const HloInstruction& lhs, int64_t ragged, int64_t group_sizes,
                   int64_t groups) {
  const auto vector = ArrayShape(ElementType::kS32, {groups});
  const auto dimensions = Prepend(groups, lhs.shape.dimensions);
  const auto numbers = ArrayShape(ElementType::kS32, dimensions);
  const auto values = ArrayShape(lhs.shape.element_type, dimensions);
  const int64_t sizes = make.Make("convert", vector, {group_sizes});
  const int64_t ends = MakeEnds(make, sizes, groups);
  const int64_t begins = make.Make("subtract", vector, {ends, sizes});
  const int64_t row = make.Make("iota", numbers, {}, {ragged + 1});
  const int64_t not_before =
      make.Compare("GE", numbers, row, make.Make("broadcast", numbers, {begins}, {0}));
  const int64_t not_behind =
      make.Compare("LT", numbers, row, make.Make("broadcast", numbers, {ends}, {0}));
  const int64_t mask =
      make.Make("and", ArrayShape(ElementType::kPred, dimensions), {not_before, not_behind});
  const int64_t all =
      make.Make("broadcast", values, {lhs.id}, Iota(lhs.shape.dimensions.size(), 1));
  const int64_t none = make.Make("broadcast", values, {make.Zero(lhs.shape.element_type)});
  return make.Make("select", values, {mask, all, none});
}

// The dot that the ragged dot becomes; its operands are `masked` and the right side, or that once
// for each group.
Status Rewrite(Maker& make, const HloComputation& computation, HloInstruction& dot) {
  const auto ragged = RaggedDotDimensionsOf(dot);
  if (!ragged || ragged->lhs_ragged.size() != 1 || dot.operands.size() != 3) {
    return InvalidArgument("The ragged dot '{}' has no ragged dimension.", dot.name);
  }
  const HloInstruction& lhs = *computation.Find(dot.operands[0]);
  const HloInstruction& rhs = *computation.Find(dot.operands[1]);
  const HloInstruction& sizes = *computation.Find(dot.operands[2]);
  const int64_t dimension = ragged->lhs_ragged[0];
  const auto is_ragged = [dimension](const Dimensions& of) {
    return std::ranges::find(of, dimension) != of.end();
  };
  if (sizes.shape.dimensions.size() != 1 || is_ragged(ragged->dot.lhs_batch)) {
    return Unimplemented(
        "The ragged dot '{}' has sizes of groups for each batch, or ragged batches ({}); Torus has "
        "those of one list of sizes.",
        dot.name, sizes.shape.ToString());
  }
  const int64_t groups = sizes.shape.dimensions[0];
  const int64_t masked = MakeMasked(make, lhs, dimension, sizes.id, groups);
  auto dimensions = ragged->dot;
  dimensions.lhs_contracting = Shift(dimensions.lhs_contracting);
  dimensions.lhs_batch = Shift(dimensions.lhs_batch);
  int64_t right = rhs.id;
  if (is_ragged(ragged->dot.lhs_contracting)) {
    const auto shape = ArrayShape(rhs.shape.element_type, Prepend(groups, rhs.shape.dimensions));
    right = make.Make("broadcast", shape, {rhs.id}, Iota(rhs.shape.dimensions.size(), 1));
    dimensions.rhs_contracting = Shift(dimensions.rhs_contracting);
    dimensions.lhs_batch = Prepend(0, dimensions.lhs_batch);
    dimensions.rhs_batch = Prepend(0, Shift(dimensions.rhs_batch));
  } else {
    if (ragged->rhs_group.size() != 1) {
      return InvalidArgument("The ragged dot '{}' has no dimension of groups.", dot.name);
    }
    dimensions.lhs_contracting.push_back(0);
    dimensions.rhs_contracting.push_back(ragged->rhs_group[0]);
  }
  dot.opcode = "dot";
  dot.operands = {masked, right};
  dot.others = wire::Without(dot.others, kRaggedDotDimensionNumbers);
  SetDotDimensions(dot, dimensions);
  return Status();
}

}  // namespace

Result<bool> RewriteRaggedDot(HloModule& module) {
  bool changed = false;
  for (auto& computation : module.computations) {
    auto& instructions = computation.instructions;
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].opcode != "ragged-dot") continue;
      Maker make(module, computation);
      TORUS_RETURN_IF_ERROR(Rewrite(make, computation, instructions[i]));
      auto made = make.Take();
      instructions.insert(instructions.begin() + static_cast<ptrdiff_t>(i), made.begin(),
                          made.end());
      i += made.size();
      changed = true;
    }
  }
  return changed;
}

}  // namespace torus::program
