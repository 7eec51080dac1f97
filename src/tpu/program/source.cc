// Field numbers are those of openxla/xla's xla/service/hlo.proto and xla/xla_data.proto.
#include "tpu/program/source.h"

#include "tpu/program/wire.h"

namespace torus::program {
namespace {

using wire::FindAllBytes;
using wire::FindBytes;
using wire::FindInt;

// The entry of a repeated field that a number counted from 1 names; empty where there is none.
std::string_view Entry(std::string_view message, int field, int64_t number) {
  const auto all = FindAllBytes(message, field);
  return number < 1 || static_cast<size_t>(number) > all.size() ? std::string_view()
                                                                : all[number - 1];
}

// HloModuleProto.stack_frame_index = 17; OpMetadata.stack_frame_id = 15, in HloInstruction's 7.
void FindFrame(const HloModule& module, const HloInstruction& instruction, SourceOf& source) {
  const auto index = FindBytes(module.others, 17);
  const auto frame_id = FindInt(FindBytes(instruction.others, 7).value_or(""), 15);
  if (!index || !frame_id) return;
  const auto frame = Entry(*index, 4, *frame_id);
  const auto location = Entry(*index, 3, FindInt(frame, 1).value_or(0));
  source.file = Entry(*index, 1, FindInt(location, 1).value_or(0));
  source.line = FindInt(location, 3).value_or(0);
}

}  // namespace

SourceOf FindSource(const HloModule& module, const HloInstruction& instruction) {
  auto source = SourceOfInstruction(instruction);
  try {
    if (source.file.empty()) FindFrame(module, instruction, source);
  } catch (const protozero::exception&) {
    // A malformed table tells nothing.
  }
  return source;
}

std::string SourceText(const HloModule& module, const HloInstruction& instruction) {
  const auto source = FindSource(module, instruction);
  auto text = source.op_name;
  if (!source.file.empty()) {
    text += fmt::format("{}at {}:{}", text.empty() ? "" : " ", source.file, source.line);
  }
  return text;
}

}  // namespace torus::program
