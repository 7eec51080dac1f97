// ragged-dot becomes a dot of sides that are masked by group, which every engine has.
//
// The rows of the ragged dimension belong to groups of the sizes given, one after the other; rows
// behind the last group belong to none and count as zeros. With masked[g, ...] a side with all but
// group g's rows zero:
//   ragged is a free dimension of the left side: out[m, n] = sum over g, k of
//     masked[g, m, k] * right[g, k, n]
//   ragged is contracted: out[g, m, n] = sum over k of masked[g, m, k] * masked right[g, k, n]
//   ragged is a batch: the groups change nothing
// Sizes are one list for all, or one for each place in the dimensions before the ragged one: the
// batch, then those of its own kind. The work is that of the dense dot times the number of groups,
// as in JAX's own expansion.
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/maker.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/wire.h"

namespace torus::program {
namespace {

// xla.HloInstructionProto
constexpr protozero::pbf_tag_type kRaggedDotDimensionNumbers = 90;

using Dimensions = Maker::Dimensions;

Dimensions Prepend(int64_t first, Dimensions rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

Dimensions Shift(Dimensions dimensions) {
  for (int64_t& dimension : dimensions) ++dimension;
  return dimensions;
}

bool Contains(const Dimensions& dimensions, int64_t dimension) {
  return std::ranges::find(dimensions, dimension) != dimensions.end();
}

void AppendUntil(Dimensions& to, const Dimensions& from, int64_t end) {
  to.insert(to.end(), from.begin(), std::ranges::find(from, end));
}

// One side of the product, with its part of the dimension numbers.
struct Side {
  const HloInstruction& value;
  const Dimensions& contracting;
  const Dimensions& batch;
  int64_t ragged;

  // The dimensions for each place in which there may be sizes of their own.
  Dimensions prefix() const {
    Dimensions prefix = batch;
    if (Contains(contracting, ragged)) {
      AppendUntil(prefix, contracting, ragged);
      return prefix;
    }
    for (int64_t free = 0; free < ragged; ++free) {
      if (!Contains(contracting, free) && !Contains(batch, free)) prefix.push_back(free);
    }
    return prefix;
  }
};

class Masks {
 public:
  Masks(Maker& make, const HloInstruction& sizes)
      : make_(make), groups_(sizes.shape.dimensions.back()), sizes_(sizes.shape.dimensions) {
    numbers_ = make.Make("convert", ArrayShape(ElementType::kS64, sizes_), {sizes.id});
  }

  // masked[g, ...] of a side. The error where the sizes do not fit it.
  Result<int64_t> Apply(const Side& side) {
    const auto prefix = sizes_.size() == 1 ? Dimensions() : side.prefix();
    const bool fits = prefix.size() + 1 == sizes_.size() &&
                      std::ranges::equal(prefix, std::span(sizes_).first(prefix.size()), {},
                                         [&](int64_t dimension) {
                                           return side.value.shape.dimensions[dimension];
                                         });
    if (!fits) {
      return InvalidArgument("The sizes s[{}] of a ragged dot's groups do not fit its operand {}.",
                             fmt::join(sizes_, ","), side.value.shape.ToString());
    }
    const auto dimensions = Prepend(groups_, side.value.shape.dimensions);
    const auto numbers = ArrayShape(ElementType::kS64, dimensions);
    const auto values = ArrayShape(side.value.shape.element_type, dimensions);
    const int64_t row = make_.Make("iota", numbers, {}, {side.ragged + 1});
    const int64_t not_before = make_.Compare("GE", numbers, row, Sum("LT", prefix, numbers));
    const int64_t not_behind = make_.Compare("LT", numbers, row, Sum("LE", prefix, numbers));
    const int64_t mask =
        make_.Make("and", ArrayShape(ElementType::kPred, dimensions), {not_before, not_behind});
    const int64_t all = make_.Make("broadcast", values, {side.value.id},
                                   Iota(side.value.shape.dimensions.size(), 1));
    const int64_t none = make_.Fill(values.element_type, dimensions, 0);
    return make_.Make("select", values, {mask, all, none});
  }

 private:
  // For each group the sum of the sizes of those before it, or up to it, in the shape of a masked
  // side: a product with a triangle of ones, [g', g] x [prefix, g'] -> [g, prefix].
  int64_t Sum(const char* order, const Dimensions& prefix, const HloShape& masked) {
    const auto square = ArrayShape(ElementType::kS64, {groups_, groups_});
    const int64_t row = make_.Make("iota", square, {}, {0});
    const int64_t column = make_.Make("iota", square, {}, {1});
    const int64_t ones = make_.Make("convert", square, {make_.Compare(order, square, row, column)});
    auto shape = Prepend(groups_, sizes_);
    shape.pop_back();
    const auto last = static_cast<int64_t>(sizes_.size()) - 1;
    const int64_t sums = make_.Dot(ArrayShape(ElementType::kS64, shape), ones, numbers_,
                                   {.lhs_contracting = {0}, .rhs_contracting = {last}});
    // A broadcast keeps the order of dimensions.
    Dimensions order_of = Iota(shape.size(), 0), to = Prepend(0, Shift(prefix));
    std::ranges::sort(order_of, {}, [&](int64_t i) { return to[i]; });
    Dimensions sorted;
    for (const int64_t i : order_of) sorted.push_back(shape[i]);
    std::ranges::sort(to);
    const int64_t turned =
        make_.Make("transpose", ArrayShape(ElementType::kS64, sorted), {sums}, order_of);
    return make_.Make("broadcast", masked, {turned}, to);
  }

  Maker& make_;
  const int64_t groups_;
  const Dimensions sizes_;
  int64_t numbers_;
};

// Masks the sides of a dot whose ragged dimension is free or contracted.
Status MaskSides(Maker& make, const HloComputation& computation, const RaggedDotDimensions& ragged,
                 HloInstruction& dot, DotDimensions& dimensions) {
  const auto& [lhs_contracting, rhs_contracting, lhs_batch, rhs_batch] = ragged.dot;
  const int64_t row = ragged.lhs_ragged[0];
  Masks masks(make, *computation.Find(dot.operands[2]));
  const HloInstruction& lhs = *computation.Find(dot.operands[0]);
  TORUS_ASSIGN_OR_RETURN(dot.operands[0], masks.Apply({lhs, lhs_contracting, lhs_batch, row}));
  dimensions.lhs_contracting = Shift(lhs_contracting);
  dimensions.lhs_batch = Shift(lhs_batch);
  if (!Contains(lhs_contracting, row)) {
    if (ragged.rhs_group.size() != 1) {
      return InvalidArgument("The ragged dot '{}' has no dimension of groups.", dot.name);
    }
    dimensions.lhs_contracting.push_back(0);
    dimensions.rhs_contracting.push_back(ragged.rhs_group[0]);
    return Status();
  }
  const auto place = std::ranges::find(lhs_contracting, row) - lhs_contracting.begin();
  const HloInstruction& rhs = *computation.Find(dot.operands[1]);
  TORUS_ASSIGN_OR_RETURN(
      dot.operands[1],
      masks.Apply({rhs, rhs_contracting, rhs_batch, rhs_contracting[static_cast<size_t>(place)]}));
  dimensions.rhs_contracting = Shift(rhs_contracting);
  dimensions.lhs_batch = Prepend(0, dimensions.lhs_batch);
  dimensions.rhs_batch = Prepend(0, Shift(rhs_batch));
  return Status();
}

// The dot that the ragged dot becomes.
Status Rewrite(Maker& make, const HloComputation& computation, HloInstruction& dot) {
  const auto ragged = RaggedDotDimensionsOf(dot);
  if (!ragged || ragged->lhs_ragged.size() != 1 || dot.operands.size() != 3 ||
      ragged->dot.lhs_contracting.size() != ragged->dot.rhs_contracting.size() ||
      computation.Find(dot.operands[2])->shape.dimensions.empty()) {
    return InvalidArgument("The ragged dot '{}' has no ragged dimension, or no groups.", dot.name);
  }
  auto dimensions = ragged->dot;
  if (!Contains(dimensions.lhs_batch, ragged->lhs_ragged[0])) {
    TORUS_RETURN_IF_ERROR(MaskSides(make, computation, *ragged, dot, dimensions));
  }
  dot.opcode = "dot";
  dot.operands.pop_back();
  dot.others = wire::Without(dot.others, kRaggedDotDimensionNumbers);
  SetDotDimensions(dot, dimensions);
  return Status();
}

}  // namespace

Result<bool> RewriteRaggedDot(HloModule& module) {
  bool changed = false;
  for (auto& computation : module.computations) {
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      if (computation.instructions[i].opcode != "ragged-dot") continue;
      Maker make(module, computation, computation.instructions[i], "ragged");
      TORUS_RETURN_IF_ERROR(Rewrite(make, computation, computation.instructions[i]));
      i += make.PutBefore(computation, i);
      changed = true;
    }
  }
  return changed;
}

}  // namespace torus::program
