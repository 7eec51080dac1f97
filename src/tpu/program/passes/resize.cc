// ResizeBilinear, ResizeNearest and their gradients, which only the TPU's compiler knows, become
// operations that every engine has.
//
// Images are [batch, height, width, channels]; the call's configuration is two digits, whether the
// corners of both images are aligned, and whether a pixel's place is its middle. Each of the two
// dimensions is resized by itself: a new pixel is a mix of two old ones, or one of them, whose
// places and weights are constants. They are computed in floats and in the order in which
// TensorFlow's kernels for CPUs do it, so that values are equal. The gradient is the product with
// the matrix of the weights.
#include <algorithm>
#include <cmath>

#include "tpu/program/edit.h"
#include "tpu/program/maker.h"
#include "tpu/program/rewrite.h"

namespace torus::program {
namespace {

using Dimensions = Maker::Dimensions;

constexpr std::string_view kBilinear = "ResizeBilinear", kNearest = "ResizeNearest",
                           kGradient = "Grad";

struct Resize {
  bool bilinear, gradient, align_corners, half_pixel_centers;
};

std::optional<Resize> ResizeOf(const HloInstruction& instruction) {
  std::string_view target = instruction.custom_call_target;
  const bool gradient = target.ends_with(kGradient);
  if (gradient) target.remove_suffix(kGradient.size());
  if (target != kBilinear && target != kNearest) return std::nullopt;
  const auto& config = instruction.backend_config;  // "01", in quotes
  return Resize{.bilinear = target == kBilinear,
                .gradient = gradient,
                .align_corners = config.size() == 4 && config[1] == '1',
                .half_pixel_centers = config.size() == 4 && config[2] == '1'};
}

// Where the pixels of one dimension come from: new[i] = old[lower[i]] * (1 - weight[i]) +
// old[upper[i]] * weight[i].
struct Samples {
  Dimensions lower, upper;
  std::vector<float> weight;

  // Whether upper pixels count.
  bool mixes() const {
    return std::ranges::any_of(weight, [](float each) { return each != 0; });
  }
};

Samples SamplesOf(const Resize& resize, int64_t from, int64_t to) {
  const float scale = resize.align_corners && to > 1
                          ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                          : static_cast<float>(from) / static_cast<float>(to);
  const float middle = resize.half_pixel_centers ? 0.5F : 0;
  const auto inside = [from](float at) {
    return std::clamp(static_cast<int64_t>(at), int64_t{0}, from - 1);
  };
  Samples samples;
  for (int64_t i = 0; i < to; ++i) {
    float at = (static_cast<float>(i) + middle) * scale;
    if (!resize.bilinear) {
      samples.lower.push_back(inside(resize.align_corners ? std::round(at) : std::floor(at)));
      continue;
    }
    at -= middle;
    samples.lower.push_back(inside(std::floor(at)));
    samples.upper.push_back(inside(std::ceil(at)));
    samples.weight.push_back(at - std::floor(at));
  }
  return samples;
}

// The array whose dimension `at` has the elements of these places.
int64_t Gather(Maker& make, int64_t array, const HloShape& shape, size_t at,
               const Dimensions& places) {
  auto taken = shape;
  taken.dimensions[at] = static_cast<int64_t>(places.size());
  auto slice = shape.dimensions;
  slice[at] = 1;
  return make.Gather(array, make.Constant(places), taken, static_cast<int64_t>(at), slice);
}

// Resizes one dimension of the array.
int64_t Sample(Maker& make, int64_t array, HloShape& shape, size_t at, const Samples& samples) {
  const int64_t lower = Gather(make, array, shape, at, samples.lower);
  const int64_t upper = samples.mixes() ? Gather(make, array, shape, at, samples.upper) : -1;
  shape.dimensions[at] = static_cast<int64_t>(samples.lower.size());
  if (!samples.mixes()) return lower;
  const int64_t weight =
      make.Make("broadcast", shape, {make.Constant(samples.weight)}, {static_cast<int64_t>(at)});
  const int64_t difference = make.Make("subtract", shape, {upper, lower});
  const int64_t part = make.Make("multiply", shape, {difference, weight});
  return make.Make("add", shape, {lower, part});
}

// For each new pixel a row, with the weights at the places that it comes from.
int64_t Matrix(Maker& make, const Samples& samples, ElementType type, int64_t from) {
  const auto rows = static_cast<int64_t>(samples.lower.size());
  const auto matrix = ArrayShape(type, {rows, from});
  const auto numbers = ArrayShape(ElementType::kS64, {rows, from});
  const int64_t column = make.Make("iota", numbers, {}, {1});
  const int64_t zeros = make.Fill(type, {rows, from}, 0);
  const auto at = [&](const Dimensions& places, int64_t weights) {
    const int64_t place = make.Make("broadcast", numbers, {make.Constant(places)}, {0});
    return make.Make("select", matrix,
                     {make.Compare("EQ", numbers, column, place), weights, zeros});
  };
  if (samples.weight.empty()) return at(samples.lower, make.Fill(type, {rows, from}, 1));
  std::vector<float> rest;
  for (const float weight : samples.weight) rest.push_back(1 - weight);
  const auto weights = [&](const std::vector<float>& values) {
    return make.Make("broadcast", matrix, {make.Constant(values)}, {0});
  };
  const int64_t lower = at(samples.lower, weights(rest));
  return make.Make("add", matrix, {lower, at(samples.upper, weights(samples.weight))});
}

// Adds up what each old pixel gave to new ones, along one dimension of the array.
int64_t Gradient(Maker& make, int64_t array, HloShape& shape, size_t at, int64_t matrix,
                 int64_t from) {
  auto product = shape;  // the other dimensions, then this one
  product.dimensions.erase(product.dimensions.begin() + static_cast<ptrdiff_t>(at));
  product.dimensions.push_back(from);
  product = ArrayShape(product.element_type, product.dimensions);
  const int64_t dot = make.Dot(product, array, matrix,
                               {.lhs_contracting = {static_cast<int64_t>(at)},
                                .rhs_contracting = {0},
                                .lhs_batch = {},
                                .rhs_batch = {}});
  auto order = Iota(shape.dimensions.size() - 1, 0);
  order.insert(order.begin() + static_cast<ptrdiff_t>(at), std::ssize(order));
  shape.dimensions[at] = from;
  return make.Make("transpose", shape, {dot}, order);
}

// What it is computed in.
ElementType TypeOf(const Resize& resize, ElementType image) {
  if (resize.bilinear) return ElementType::kF32;
  if (!resize.gradient || BitsOf(image) >= 32) return image;
  const bool is_float = image == ElementType::kF16 || image == ElementType::kBF16;
  return is_float ? ElementType::kF32 : ElementType::kS32;  // of a sum of many
}

Status Check(const HloInstruction& call, const HloInstruction& image) {
  const auto &from = image.shape.dimensions, &to = call.shape.dimensions;
  const auto is_dynamic = [](const HloShape& shape) {
    return std::ranges::find(shape.dynamic, true) != shape.dynamic.end();
  };
  if (from.size() != 4 || to.size() != 4 || from[0] != to[0] || from[3] != to[3])
    return InvalidArgument(
        "The {} '{}' is not of images [batch, height, width, channels]: {} to {}.",
        call.custom_call_target, call.name, image.shape.ToString(), call.shape.ToString());
  if (is_dynamic(image.shape) || is_dynamic(call.shape))
    return Unimplemented(
        "The {} '{}' is of images whose number is not known: give it a batch of a "
        "fixed size (drop_remainder=True).",
        call.custom_call_target, call.name);
  return Status();
}

// The call becomes a copy of what is computed in its place.
void Rewrite(Maker& make, const Resize& resize, const HloInstruction& image, HloInstruction& call) {
  const auto type = TypeOf(resize, image.shape.element_type);
  auto shape = ArrayShape(type, image.shape.dimensions);
  int64_t array = image.id;
  if (type != image.shape.element_type) array = make.Make("convert", shape, {array});
  for (const size_t at : {2, 1}) {
    const int64_t from = shape.dimensions[at], to = call.shape.dimensions[at];
    if (from == to) continue;
    if (resize.gradient) {
      const auto matrix = Matrix(make, SamplesOf(resize, to, from), type, to);
      array = Gradient(make, array, shape, at, matrix, to);
    } else {
      array = Sample(make, array, shape, at, SamplesOf(resize, from, to));
    }
  }
  ForgetCall(call);
  call.opcode = type == call.shape.element_type ? "copy" : "convert";
  call.operands = {array};
}

}  // namespace

Result<bool> RewriteResize(HloModule& module) {
  bool changed = false;
  for (auto& computation : module.computations) {
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      auto& call = computation.instructions[i];
      const auto resize = ResizeOf(call);
      if (!resize || call.operands.size() != 1) continue;
      const auto& image = *computation.Find(call.operands[0]);
      TORUS_RETURN_IF_ERROR(Check(call, image));
      Maker make(module, computation, call, "resize");
      Rewrite(make, *resize, image, call);
      i += make.PutBefore(computation, i);
      changed = true;
    }
  }
  return changed;
}

}  // namespace torus::program
