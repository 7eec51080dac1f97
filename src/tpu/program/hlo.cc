// Reading and writing, one pair of functions a message, its field numbers above them.
#include "tpu/program/hlo.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "tpu/program/wire.h"

namespace torus::program {
namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;
using wire::Is;
using wire::Type;

// Deeper tuples than any framework makes; a program of a stranger must not exhaust the stack.
constexpr int kDeepestShape = 64;

// xla.LayoutProto
namespace layout_field {
enum : protozero::pbf_tag_type {
  kMinorToMajor = 1,
  kTiles = 6,  // xla.TileProto, whose dimensions are its field 1
  kElementSizeInBits = 7,
  kMemorySpace = 8,
};
}  // namespace layout_field

HloLayout ReadLayout(std::string_view message) {
  using namespace layout_field;
  HloLayout layout;
  wire::Read(message, &layout.others, [&](pbf_reader& reader) {
    if (reader.tag() == kMinorToMajor) return wire::TakeInts(reader, &layout.minor_to_major);
    if (Is(reader, kTiles, Type::length_delimited)) {
      layout.tiles.push_back(wire::FindInts(wire::View(reader.get_view()), 1));
    } else if (Is(reader, kElementSizeInBits, Type::varint)) {
      layout.element_size_in_bits = reader.get_int64();
    } else if (Is(reader, kMemorySpace, Type::varint)) {
      layout.memory_space = reader.get_int64();
    } else {
      return false;
    }
    return true;
  });
  return layout;
}

std::string WriteLayout(const HloLayout& layout) {
  using namespace layout_field;
  std::string message;
  pbf_writer writer(message);
  wire::AddInts(writer, kMinorToMajor, layout.minor_to_major);
  for (const auto& tile : layout.tiles) {
    pbf_writer inner(writer, kTiles);
    wire::AddInts(inner, 1, tile);
  }
  wire::AddInt(writer, kElementSizeInBits, layout.element_size_in_bits);
  wire::AddInt(writer, kMemorySpace, layout.memory_space);
  return message + layout.others;
}

// xla.ShapeProto
namespace shape_field {
enum : protozero::pbf_tag_type {
  kElementType = 2,
  kDimensions = 3,
  kTupleShapes = 4,
  kLayout = 5,
  kIsDynamic = 6,
};
}  // namespace shape_field

HloShape ReadShape(std::string_view message, int depth) {
  using namespace shape_field;
  if (depth > kDeepestShape) throw protozero::end_of_buffer_exception();
  HloShape shape;
  std::vector<int64_t> dynamic;
  wire::Read(message, &shape.others, [&](pbf_reader& reader) {
    if (reader.tag() == kDimensions) return wire::TakeInts(reader, &shape.dimensions);
    if (reader.tag() == kIsDynamic) return wire::TakeInts(reader, &dynamic);
    if (Is(reader, kElementType, Type::varint)) {
      shape.element_type = static_cast<ElementType>(reader.get_int32());
    } else if (Is(reader, kTupleShapes, Type::length_delimited)) {
      shape.tuple.push_back(ReadShape(wire::View(reader.get_view()), depth + 1));
    } else if (Is(reader, kLayout, Type::length_delimited)) {
      shape.layout = ReadLayout(wire::View(reader.get_view()));
    } else {
      return false;
    }
    return true;
  });
  shape.dynamic.assign(dynamic.begin(), dynamic.end());
  return shape;
}

// xla.HloInstructionProto
namespace instruction_field {
enum : protozero::pbf_tag_type {
  kName = 1,
  kOpcode = 2,
  kShape = 3,
  kParameterNumber = 9,
  kTupleIndex = 13,
  kDimensions = 14,
  kChannelId = 26,
  kCustomCallTarget = 28,
  kId = 35,
  kOperandIds = 36,
  kControlPredecessorIds = 37,
  kCalledComputationIds = 38,
  kBackendConfig = 43,
};
}  // namespace instruction_field

// The member that a field of bytes is read into; null: it is none of them.
std::string* TextOf(HloInstruction& instruction, protozero::pbf_tag_type field) {
  using namespace instruction_field;
  switch (field) {
    case kName:
      return &instruction.name;
    case kOpcode:
      return &instruction.opcode;
    case kCustomCallTarget:
      return &instruction.custom_call_target;
    case kBackendConfig:
      return &instruction.backend_config;
    default:
      return nullptr;
  }
}

int64_t* IntOf(HloInstruction& instruction, protozero::pbf_tag_type field) {
  using namespace instruction_field;
  switch (field) {
    case kId:
      return &instruction.id;
    case kParameterNumber:
      return &instruction.parameter_number;
    case kTupleIndex:
      return &instruction.tuple_index;
    case kChannelId:
      return &instruction.channel_id;
    default:
      return nullptr;
  }
}

std::vector<int64_t>* IntsOf(HloInstruction& instruction, protozero::pbf_tag_type field) {
  using namespace instruction_field;
  switch (field) {
    case kOperandIds:
      return &instruction.operands;
    case kControlPredecessorIds:
      return &instruction.after;
    case kCalledComputationIds:
      return &instruction.called;
    case kDimensions:
      return &instruction.dimensions;
    default:
      return nullptr;
  }
}

HloInstruction ReadInstruction(std::string_view message) {
  HloInstruction instruction;
  wire::Read(message, &instruction.others, [&](pbf_reader& reader) {
    const auto field = reader.tag();
    if (auto* ints = IntsOf(instruction, field)) return wire::TakeInts(reader, ints);
    if (reader.has_wire_type(Type::varint)) {
      int64_t* value = IntOf(instruction, field);
      if (value != nullptr) *value = reader.get_int64();
      return value != nullptr;
    }
    if (!reader.has_wire_type(Type::length_delimited)) return false;
    if (field == instruction_field::kShape) {
      instruction.shape = ReadShape(wire::View(reader.get_view()), 0);
      return true;
    }
    std::string* text = TextOf(instruction, field);
    if (text != nullptr) *text = reader.get_string();
    return text != nullptr;
  });
  return instruction;
}

std::string WriteInstruction(const HloInstruction& instruction) {
  using namespace instruction_field;
  std::string message;
  pbf_writer writer(message);
  wire::AddBytes(writer, kName, instruction.name);
  wire::AddBytes(writer, kOpcode, instruction.opcode);
  writer.add_message(kShape, WriteShape(instruction.shape));
  wire::AddInt(writer, kParameterNumber, instruction.parameter_number);
  wire::AddInt(writer, kTupleIndex, instruction.tuple_index);
  wire::AddInts(writer, kDimensions, instruction.dimensions);
  wire::AddInt(writer, kChannelId, instruction.channel_id);
  wire::AddBytes(writer, kCustomCallTarget, instruction.custom_call_target);
  wire::AddInt(writer, kId, instruction.id);
  wire::AddInts(writer, kOperandIds, instruction.operands);
  wire::AddInts(writer, kControlPredecessorIds, instruction.after);
  wire::AddInts(writer, kCalledComputationIds, instruction.called);
  wire::AddBytes(writer, kBackendConfig, instruction.backend_config);
  return message + instruction.others;
}

// xla.HloComputationProto
namespace computation_field {
enum : protozero::pbf_tag_type { kName = 1, kInstructions = 2, kId = 5, kRootId = 6 };
}  // namespace computation_field

HloComputation ReadComputation(std::string_view message) {
  using namespace computation_field;
  HloComputation computation;
  wire::Read(message, &computation.others, [&](pbf_reader& reader) {
    if (Is(reader, kName, Type::length_delimited)) {
      computation.name = reader.get_string();
    } else if (Is(reader, kInstructions, Type::length_delimited)) {
      computation.instructions.push_back(ReadInstruction(wire::View(reader.get_view())));
    } else if (Is(reader, kId, Type::varint)) {
      computation.id = reader.get_int64();
    } else if (Is(reader, kRootId, Type::varint)) {
      computation.root_id = reader.get_int64();
    } else {
      return false;
    }
    return true;
  });
  return computation;
}

std::string WriteComputation(const HloComputation& computation) {
  using namespace computation_field;
  std::string message;
  pbf_writer writer(message);
  wire::AddBytes(writer, kName, computation.name);
  for (const auto& instruction : computation.instructions) {
    writer.add_message(kInstructions, WriteInstruction(instruction));
  }
  wire::AddInt(writer, kId, computation.id);
  wire::AddInt(writer, kRootId, computation.root_id);
  return message + computation.others;
}

// xla.HloModuleProto
namespace module_field {
enum : protozero::pbf_tag_type {
  kName = 1,
  kEntryComputationName = 2,
  kComputations = 3,
  kId = 5,
  kEntryComputationId = 6,
};
}  // namespace module_field

HloModule ReadModule(std::string_view message) {
  using namespace module_field;
  HloModule module;
  wire::Read(message, &module.others, [&](pbf_reader& reader) {
    if (Is(reader, kName, Type::length_delimited)) {
      module.name = reader.get_string();
    } else if (Is(reader, kEntryComputationName, Type::length_delimited)) {
      module.entry_computation_name = reader.get_string();
    } else if (Is(reader, kComputations, Type::length_delimited)) {
      module.computations.push_back(ReadComputation(wire::View(reader.get_view())));
    } else if (Is(reader, kId, Type::varint)) {
      module.id = reader.get_int64();
    } else if (Is(reader, kEntryComputationId, Type::varint)) {
      module.entry_computation_id = reader.get_int64();
    } else {
      return false;
    }
    return true;
  });
  return module;
}

// That each id names something: an operand an instruction before its user. So those who walk the
// module need not ask.
Status CheckReferences(const HloModule& module) {
  std::unordered_set<int64_t> computations;
  for (const auto& computation : module.computations) computations.insert(computation.id);
  const auto lacks = [](const auto& known, const std::vector<int64_t>& ids) {
    return std::ranges::any_of(ids, [&](int64_t id) { return !known.contains(id); });
  };
  if (!computations.contains(module.entry_computation_id)) {
    return InvalidArgument("The HLO module '{}' has no entry computation.", module.name);
  }
  for (const auto& computation : module.computations) {
    std::unordered_set<int64_t> before;
    for (const auto& instruction : computation.instructions) {
      if (lacks(before, instruction.operands) || lacks(computations, instruction.called)) {
        return InvalidArgument(
            "The instruction '{}' of the HLO module '{}' names an operand or a computation that "
            "is not there.",
            instruction.name, module.name);
      }
      if (!before.insert(instruction.id).second) {
        return InvalidArgument("Two instructions of the HLO module '{}' have the id {}.",
                               module.name, instruction.id);
      }
    }
    if (!before.contains(computation.root_id)) {
      return InvalidArgument("The computation '{}' of the HLO module '{}' has no root.",
                             computation.name, module.name);
    }
  }
  return Status();
}

template <typename Item>
Item* FindById(std::vector<Item>& items, int64_t id) {
  const auto found = std::ranges::find(items, id, &Item::id);
  return found == items.end() ? nullptr : &*found;
}

struct TypeRow {
  ElementType type;
  int bits;
  std::string_view name;
};

constexpr TypeRow kTypes[] = {
    {ElementType::kPred, 8, "pred"},
    {ElementType::kS1, 1, "s1"},
    {ElementType::kS2, 2, "s2"},
    {ElementType::kS4, 4, "s4"},
    {ElementType::kS8, 8, "s8"},
    {ElementType::kS16, 16, "s16"},
    {ElementType::kS32, 32, "s32"},
    {ElementType::kS64, 64, "s64"},
    {ElementType::kU1, 1, "u1"},
    {ElementType::kU2, 2, "u2"},
    {ElementType::kU4, 4, "u4"},
    {ElementType::kU8, 8, "u8"},
    {ElementType::kU16, 16, "u16"},
    {ElementType::kU32, 32, "u32"},
    {ElementType::kU64, 64, "u64"},
    {ElementType::kF4E2M1FN, 4, "f4e2m1fn"},
    {ElementType::kF8E3M4, 8, "f8e3m4"},
    {ElementType::kF8E4M3, 8, "f8e4m3"},
    {ElementType::kF8E4M3FN, 8, "f8e4m3fn"},
    {ElementType::kF8E4M3B11FNUZ, 8, "f8e4m3b11fnuz"},
    {ElementType::kF8E4M3FNUZ, 8, "f8e4m3fnuz"},
    {ElementType::kF8E5M2, 8, "f8e5m2"},
    {ElementType::kF8E5M2FNUZ, 8, "f8e5m2fnuz"},
    {ElementType::kF8E8M0FNU, 8, "f8e8m0fnu"},
    {ElementType::kF16, 16, "f16"},
    {ElementType::kBF16, 16, "bf16"},
    {ElementType::kF32, 32, "f32"},
    {ElementType::kF64, 64, "f64"},
    {ElementType::kC64, 64, "c64"},
    {ElementType::kC128, 128, "c128"},
    {ElementType::kTuple, 0, "tuple"},
    {ElementType::kOpaque, 0, "opaque"},
    {ElementType::kToken, 0, "token"},
};

}  // namespace

int BitsOf(ElementType type) {
  const auto* row = std::ranges::find(kTypes, type, &TypeRow::type);
  return row == std::end(kTypes) ? 0 : row->bits;
}

std::string_view NameOf(ElementType type) {
  const auto* row = std::ranges::find(kTypes, type, &TypeRow::type);
  return row == std::end(kTypes) ? "?" : row->name;
}

int64_t HloShape::elements() const {
  if (BitsOf(element_type) == 0) return 0;
  int64_t count = 1;
  bool too_many = false;
  for (const int64_t dimension : dimensions) {
    if (dimension <= 0) return 0;
    too_many |= __builtin_mul_overflow(count, dimension, &count);
  }
  return too_many ? std::numeric_limits<int64_t>::max() : count;
}

std::string HloShape::ToString() const {
  if (is_tuple()) {
    std::string text;
    for (const auto& element : tuple) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", element.ToString());
    }
    return "(" + text + ")";
  }
  auto text = fmt::format("{}[{}]", NameOf(element_type), fmt::join(dimensions, ","));
  if (layout && !dimensions.empty()) {
    text += fmt::format("{{{}}}", fmt::join(layout->minor_to_major, ","));
  }
  return text;
}

HloShape ArrayShape(ElementType type, std::vector<int64_t> dimensions) {
  HloLayout layout;
  for (size_t i = dimensions.size(); i-- > 0;) {
    layout.minor_to_major.push_back(static_cast<int64_t>(i));
  }
  HloShape shape;
  shape.element_type = type;
  shape.dynamic.assign(dimensions.size(), false);
  shape.dimensions = std::move(dimensions);
  shape.layout = std::move(layout);
  return shape;
}

HloShape TokenShape() {
  HloShape shape;
  shape.element_type = ElementType::kToken;
  return shape;
}

HloShape TupleShape(std::vector<HloShape> elements) {
  HloShape shape;
  shape.element_type = ElementType::kTuple;
  shape.tuple = std::move(elements);
  return shape;
}

HloShape ReadShape(std::string_view shape_proto) { return ReadShape(shape_proto, 0); }

std::string WriteShape(const HloShape& shape) {
  using namespace shape_field;
  std::string message;
  pbf_writer writer(message);
  wire::AddInt(writer, kElementType, static_cast<int>(shape.element_type));
  wire::AddInts(writer, kDimensions, shape.dimensions);
  for (const auto& element : shape.tuple) writer.add_message(kTupleShapes, WriteShape(element));
  if (shape.layout) writer.add_message(kLayout, WriteLayout(*shape.layout));
  writer.add_packed_bool(kIsDynamic, shape.dynamic.begin(), shape.dynamic.end());
  return message + shape.others;
}

HloInstruction* HloComputation::Find(int64_t instruction_id) {
  return FindById(instructions, instruction_id);
}
const HloInstruction* HloComputation::Find(int64_t instruction_id) const {
  return const_cast<HloComputation*>(this)->Find(instruction_id);
}
const HloComputation* HloModule::Find(int64_t computation_id) const {
  return FindById(const_cast<HloModule*>(this)->computations, computation_id);
}

Result<HloModule> ReadHlo(std::string_view module_proto) {
  try {
    HloModule module = ReadModule(module_proto);
    TORUS_RETURN_IF_ERROR(CheckReferences(module));
    return module;
  } catch (const protozero::exception& error) {
    return InvalidArgument("This is no HloModuleProto: {}.", error.what());
  }
}

Result<HloModule> ReadHloDump(std::string_view hlo_proto) {
  constexpr protozero::pbf_tag_type kHloModule = 1;  // of xla.HloProto
  try {
    const auto module = wire::FindBytes(hlo_proto, kHloModule);
    if (!module) return InvalidArgument("This HloProto has no module.");
    return ReadHlo(*module);
  } catch (const protozero::exception& error) {
    return InvalidArgument("This is no HloProto: {}.", error.what());
  }
}

std::string WriteHlo(const HloModule& module) {
  using namespace module_field;
  std::string message;
  pbf_writer writer(message);
  wire::AddBytes(writer, kName, module.name);
  wire::AddBytes(writer, kEntryComputationName, module.entry_computation_name);
  for (const auto& computation : module.computations) {
    writer.add_message(kComputations, WriteComputation(computation));
  }
  wire::AddInt(writer, kId, module.id);
  wire::AddInt(writer, kEntryComputationId, module.entry_computation_id);
  return message + module.others;
}

}  // namespace torus::program
