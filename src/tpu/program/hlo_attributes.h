// What an instruction or a module says beside its operands and shape, read when it is asked for.
//
// Each function reads one field of `others` (hlo.h) by the number that openxla/xla's hlo.proto and
// xla_data.proto give it; a field that is missing or malformed reads as none. Views point into the
// object that was asked. Thread-safety: pure functions.
#ifndef TORUS_TPU_PROGRAM_HLO_ATTRIBUTES_H_
#define TORUS_TPU_PROGRAM_HLO_ATTRIBUTES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tpu/program/hlo.h"

namespace torus::program {

// ---- Of an instruction

struct DotDimensions {
  std::vector<int64_t> lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
};
std::optional<DotDimensions> DotDimensionsOf(const HloInstruction& dot);

struct RaggedDotDimensions {
  DotDimensions dot;
  std::vector<int64_t> lhs_ragged;
  std::vector<int64_t> rhs_group;
};
std::optional<RaggedDotDimensions> RaggedDotDimensionsOf(const HloInstruction& ragged_dot);

struct WindowDimension {
  int64_t size = 0, stride = 0, padding_low = 0, padding_high = 0;
  int64_t window_dilation = 0, base_dilation = 0;
  bool reversal = false;
};
// Of a convolution, reduce-window, select-and-scatter: one a spatial dimension.
std::vector<WindowDimension> WindowOf(const HloInstruction& instruction);

struct ConvolutionDimensions {
  int64_t input_batch = 0, input_feature = 0;
  std::vector<int64_t> input_spatial;
  int64_t kernel_input_feature = 0, kernel_output_feature = 0;
  std::vector<int64_t> kernel_spatial;
  int64_t output_batch = 0, output_feature = 0;
  std::vector<int64_t> output_spatial;
  int64_t feature_groups = 1, batch_groups = 1;
};
std::optional<ConvolutionDimensions> ConvolutionDimensionsOf(const HloInstruction& convolution);

// Lengths of an "fft".
std::vector<int64_t> FftLengthsOf(const HloInstruction& fft);

// The serialized xla.LiteralProto of a "constant"; empty where there is none.
std::string_view LiteralOf(const HloInstruction& constant);

// The serialized xla.OpSharding; none: not sharded.
std::optional<std::string_view> ShardingOf(const HloInstruction& instruction);

// How a send, recv, custom call, ... is to be treated, as the framework says.
std::map<std::string, std::string> FrontendAttributesOf(const HloInstruction& instruction);

bool IsHostTransfer(const HloInstruction& instruction);

// Where the instruction came from: the framework's name of it, and the source line.
struct SourceOf {
  std::string op_name;  // "jit(step)/dot_general"
  std::string file;     // empty where a newer XLA keeps it in the module's stack frames
  int64_t line = 0;
};
SourceOf SourceOfInstruction(const HloInstruction& instruction);

// ---- Of a module

struct Alias {
  std::vector<int64_t> output_index;  // in the result's tuple
  int64_t parameter = 0;
  std::vector<int64_t> parameter_index;
  bool must = false;
};
// Outputs that take over an argument's memory.
std::vector<Alias> AliasesOf(const HloModule& module);

// Parameters (with their place in a tuple) whose memory any output may take over.
struct Donor {
  int64_t parameter = 0;
  std::vector<int64_t> parameter_index;
};
std::vector<Donor> DonorsOf(const HloModule& module);

// The shapes of arguments and result, with the layouts that the caller wants.
struct ProgramShape {
  std::vector<HloShape> parameters;
  HloShape result;
};
std::optional<ProgramShape> ProgramShapeOf(const HloModule& module);

std::map<std::string, std::string> FrontendAttributesOf(const HloModule& module);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_HLO_ATTRIBUTES_H_
