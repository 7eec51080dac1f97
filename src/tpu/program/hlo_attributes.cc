// One function a message; the field numbers stand where they are used, beside their names.
#include "tpu/program/hlo_attributes.h"

#include "tpu/program/wire.h"

namespace torus::program {
namespace {

using wire::FindAllBytes;
using wire::FindBytes;
using wire::FindInt;
using wire::FindInts;

// What `read` makes of bytes that may be malformed: nothing, then.
template <typename Read>
auto Try(Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const protozero::exception&) {
    return {};
  }
}

// xla.FrontendAttributes: map<string, string> map = 1.
std::map<std::string, std::string> ReadFrontendAttributes(std::string_view others,
                                                          protozero::pbf_tag_type field) {
  std::map<std::string, std::string> attributes;
  for (const auto entry : FindAllBytes(FindBytes(others, field).value_or(""), 1)) {
    attributes.insert_or_assign(std::string(FindBytes(entry, 1).value_or("")),
                                std::string(FindBytes(entry, 2).value_or("")));
  }
  return attributes;
}

DotDimensions ReadDotDimensions(std::string_view message) {
  return {.lhs_contracting = FindInts(message, 1),
          .rhs_contracting = FindInts(message, 2),
          .lhs_batch = FindInts(message, 3),
          .rhs_batch = FindInts(message, 4)};
}

WindowDimension ReadWindowDimension(std::string_view message) {
  const auto value = [message](int field) { return FindInt(message, field).value_or(0); };
  return {.size = value(1),
          .stride = value(2),
          .padding_low = value(3),
          .padding_high = value(4),
          .window_dilation = value(5),
          .base_dilation = value(6),
          .reversal = value(7) != 0};
}

ConvolutionDimensions ReadConvolutionDimensions(std::string_view message) {
  const auto value = [message](int field) { return FindInt(message, field).value_or(0); };
  return {.input_batch = value(7),
          .input_feature = value(8),
          .input_spatial = FindInts(message, 11),
          .kernel_input_feature = value(3),
          .kernel_output_feature = value(4),
          .kernel_spatial = FindInts(message, 6),
          .output_batch = value(9),
          .output_feature = value(10),
          .output_spatial = FindInts(message, 12)};
}

}  // namespace

// ---- Of an instruction

std::optional<DotDimensions> DotDimensionsOf(const HloInstruction& dot) {
  return Try([&]() -> std::optional<DotDimensions> {
    const auto message = FindBytes(dot.others, 30);  // dot_dimension_numbers
    if (!message) return std::nullopt;
    return ReadDotDimensions(*message);
  });
}

std::optional<RaggedDotDimensions> RaggedDotDimensionsOf(const HloInstruction& ragged_dot) {
  return Try([&]() -> std::optional<RaggedDotDimensions> {
    const auto message = FindBytes(ragged_dot.others, 90);  // ragged_dot_dimension_numbers
    if (!message) return std::nullopt;
    return RaggedDotDimensions{.dot = ReadDotDimensions(FindBytes(*message, 1).value_or("")),
                               .lhs_ragged = FindInts(*message, 2),
                               .rhs_group = FindInts(*message, 3)};
  });
}

std::vector<WindowDimension> WindowOf(const HloInstruction& instruction) {
  return Try([&] {
    std::vector<WindowDimension> window;
    // window = 15; Window.dimensions = 1
    for (const auto dimension : FindAllBytes(FindBytes(instruction.others, 15).value_or(""), 1)) {
      window.push_back(ReadWindowDimension(dimension));
    }
    return window;
  });
}

std::optional<ConvolutionDimensions> ConvolutionDimensionsOf(const HloInstruction& convolution) {
  return Try([&]() -> std::optional<ConvolutionDimensions> {
    const auto message = FindBytes(convolution.others, 16);  // convolution_dimension_numbers
    if (!message) return std::nullopt;
    auto dimensions = ReadConvolutionDimensions(*message);
    dimensions.feature_groups = FindInt(convolution.others, 50).value_or(1);
    dimensions.batch_groups = FindInt(convolution.others, 58).value_or(1);
    return dimensions;
  });
}

std::vector<int64_t> FftLengthsOf(const HloInstruction& fft) {
  return Try([&] { return FindInts(fft.others, 32); });  // fft_length
}

std::string_view LiteralOf(const HloInstruction& constant) {
  return Try([&] { return FindBytes(constant.others, 8).value_or(""); });  // literal
}

std::optional<std::string_view> ShardingOf(const HloInstruction& instruction) {
  return Try([&] { return FindBytes(instruction.others, 40); });  // sharding
}

std::map<std::string, std::string> FrontendAttributesOf(const HloInstruction& instruction) {
  return Try([&] { return ReadFrontendAttributes(instruction.others, 68); });
}

bool IsHostTransfer(const HloInstruction& instruction) {
  return Try([&] { return FindInt(instruction.others, 47).value_or(0) != 0; });
}

SourceOf SourceOfInstruction(const HloInstruction& instruction) {
  return Try([&]() -> SourceOf {
    const auto metadata = FindBytes(instruction.others, 7).value_or("");  // OpMetadata
    return {.op_name = std::string(FindBytes(metadata, 2).value_or("")),
            .file = std::string(FindBytes(metadata, 3).value_or("")),
            .line = FindInt(metadata, 4).value_or(0)};
  });
}

// ---- Of a module

std::vector<Alias> AliasesOf(const HloModule& module) {
  return Try([&] {
    constexpr int64_t kMustAlias = 2;
    std::vector<Alias> aliases;
    // input_output_alias = 8; HloInputOutputAliasProto.entries = 1
    for (const auto entry : FindAllBytes(FindBytes(module.others, 8).value_or(""), 1)) {
      aliases.push_back({.output_index = FindInts(entry, 1),
                         .parameter = FindInt(entry, 2).value_or(0),
                         .parameter_index = FindInts(entry, 3),
                         .must = FindInt(entry, 4) == kMustAlias});
    }
    return aliases;
  });
}

std::vector<Donor> DonorsOf(const HloModule& module) {
  return Try([&] {
    std::vector<Donor> donors;
    // buffer_donor = 18; HloBufferDonorProto.entries = 1
    for (const auto entry : FindAllBytes(FindBytes(module.others, 18).value_or(""), 1)) {
      donors.push_back(
          {.parameter = FindInt(entry, 1).value_or(0), .parameter_index = FindInts(entry, 2)});
    }
    return donors;
  });
}

std::optional<ProgramShape> ProgramShapeOf(const HloModule& module) {
  return Try([&]() -> std::optional<ProgramShape> {
    const auto message = FindBytes(module.others, 4);  // host_program_shape
    if (!message) return std::nullopt;
    ProgramShape shape;
    for (const auto parameter : FindAllBytes(*message, 1)) {
      shape.parameters.push_back(ReadShape(parameter));
    }
    shape.result = ReadShape(FindBytes(*message, 2).value_or(""));
    return shape;
  });
}

std::map<std::string, std::string> FrontendAttributesOf(const HloModule& module) {
  return Try([&] { return ReadFrontendAttributes(module.others, 19); });
}

}  // namespace torus::program
