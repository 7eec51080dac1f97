// A program in the one form that serves every framework: XLA's HloModuleProto, read and written.
//
// What programs are looked at and rewritten by is a member; every other field is kept byte for byte
// in `others` (so a newer XLA's, too) and read lazily by hlo_attributes.h. Reading and writing give
// an equal message: fields may change their order, nothing else. Field numbers and meanings are
// those of openxla/xla's xla/service/hlo.proto and xla/xla_data.proto (July 2025).
//
// Thread-safety: values, as std::string is.
#ifndef TORUS_TPU_PROGRAM_HLO_H_
#define TORUS_TPU_PROGRAM_HLO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace torus::program {

// xla.PrimitiveType, by its numbers; PJRT's types are numbered otherwise, XLA's FFI's alike.
enum class ElementType : int {
  kInvalid = 0,
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kTuple = 13,
  kOpaque = 14,
  kC64 = 15,
  kBF16 = 16,
  kToken = 17,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3FN = 20,
  kS4 = 21,
  kU4 = 22,
  kF8E4M3B11FNUZ = 23,
  kF8E5M2FNUZ = 24,
  kF8E4M3FNUZ = 25,
  kS2 = 26,
  kU2 = 27,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kS1 = 30,
  kU1 = 31,
  kF4E2M1FN = 32,
  kF8E8M0FNU = 33,
};

// Bits of one element as XLA counts them; 0 for a tuple, a token and what is not known here.
int BitsOf(ElementType type);
// "f32", as HLO text names it; "?" for what is not known here.
std::string_view NameOf(ElementType type);

struct HloLayout {
  std::vector<int64_t> minor_to_major;
  std::vector<std::vector<int64_t>> tiles;
  int64_t element_size_in_bits = 0;  // 0: the type's own
  int64_t memory_space = 0;
  std::string others;
};

struct HloShape {
  ElementType element_type = ElementType::kInvalid;
  std::vector<int64_t> dimensions;  // an upper bound where dynamic
  std::vector<bool> dynamic;        // empty: none is
  std::vector<HloShape> tuple;      // of a kTuple
  std::optional<HloLayout> layout;  // none: XLA may choose
  std::string others;

  bool is_tuple() const { return element_type == ElementType::kTuple; }
  // The elements of an array; 0 for a tuple or token; the largest number where there are more.
  int64_t elements() const;
  // "f32[8,128]{1,0}", "(f32[], token[])".
  std::string ToString() const;
};

// An array's shape with the layout that runs from the last dimension to the first.
HloShape ArrayShape(ElementType type, std::vector<int64_t> dimensions);
HloShape TokenShape();
HloShape TupleShape(std::vector<HloShape> elements);

struct HloInstruction {
  int64_t id = 0;  // unique in its computation, and in its module as XLA makes it
  std::string name;
  std::string opcode;  // "dot", "custom-call", ...: XLA's HloOpcodeString
  HloShape shape;
  std::vector<int64_t> operands;    // ids of instructions of the same computation
  std::vector<int64_t> after;       // ids of control predecessors
  std::vector<int64_t> called;      // ids of computations
  int64_t parameter_number = 0;     // of a "parameter"
  int64_t tuple_index = 0;          // of a "get-tuple-element"
  int64_t channel_id = 0;           // of a "send", "all-reduce", ...; 0: none
  std::vector<int64_t> dimensions;  // of a "transpose", "reduce", "broadcast", "concatenate", ...
  std::string custom_call_target;
  std::string backend_config;
  std::string others;  // see hlo_attributes.h
};

struct HloComputation {
  int64_t id = 0;
  std::string name;
  std::vector<HloInstruction> instructions;  // an operand stands before its user
  int64_t root_id = 0;
  std::string others;  // its program shape, among others

  // Null where there is none.
  const HloInstruction* Find(int64_t instruction_id) const;
  HloInstruction* Find(int64_t instruction_id);
};

struct HloModule {
  int64_t id = 0;
  std::string name;
  std::string entry_computation_name;
  int64_t entry_computation_id = 0;
  std::vector<HloComputation> computations;
  std::string others;  // aliases, donors, shardings, frontend attributes: see hlo_attributes.h

  // Null where there is none.
  const HloComputation* Find(int64_t computation_id) const;
  const HloComputation* entry() const { return Find(entry_computation_id); }
};

// Reads a serialized xla.HloModuleProto. INVALID_ARGUMENT where it is none, or has no entry
// computation, or an instruction names an operand or a computation that is not there.
Result<HloModule> ReadHlo(std::string_view module_proto);
// As ReadHlo, of the module in a serialized xla.HloProto (what XLA dumps).
Result<HloModule> ReadHloDump(std::string_view hlo_proto);
// The serialized xla.HloModuleProto.
std::string WriteHlo(const HloModule& module);

// Serialized xla.ShapeProto. Reading throws as wire.h does.
HloShape ReadShape(std::string_view shape_proto);
std::string WriteShape(const HloShape& shape);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_HLO_H_
