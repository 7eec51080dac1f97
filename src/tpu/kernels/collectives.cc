// Every collective but a reduction only copies bytes: an array is so many rows of blocks, a block a
// member's share along the collective's dimension.
#include "tpu/kernels/collectives.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>

namespace torus::kernels {
namespace {

using program::Collective;
using program::CollectiveKind;
using program::ElementType;
using program::Reduction;

constexpr size_t kMaxBytes = size_t{1} << 40;

// ---- Reductions

struct BFloat16 {
  uint16_t bits;

  float value() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static BFloat16 Of(float value) {
    const auto whole = std::bit_cast<uint32_t>(value);
    if (value != value) return {static_cast<uint16_t>(whole >> 16 | 0x40)};
    return {static_cast<uint16_t>((whole + 0x7fff + (whole >> 16 & 1)) >> 16)};  // to even
  }
};

// What came from another process lies where its message put it, at any byte.
template <typename T, typename Operation>
void Accumulate(char* into, const char* from, size_t bytes, Operation operation) {
  for (size_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
    T value, other;
    std::memcpy(&value, into + at, sizeof(T));
    std::memcpy(&other, from + at, sizeof(T));
    if constexpr (std::is_same_v<T, BFloat16>) {
      value = BFloat16::Of(operation(value.value(), other.value()));
    } else {
      value = static_cast<T>(operation(value, other));
    }
    std::memcpy(into + at, &value, sizeof(T));
  }
}

// XLA's: a NaN wins.
constexpr auto kLargest = [](auto a, auto b) { return a != a || a > b ? a : b; };
constexpr auto kSmallest = [](auto a, auto b) { return a != a || a < b ? a : b; };

template <typename T>
bool AccumulateNumbers(Reduction reduction, char* into, const char* from, size_t bytes) {
  constexpr bool kIsComplex =
      std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
  switch (reduction) {
    case Reduction::kAdd:
      Accumulate<T>(into, from, bytes, [](auto a, auto b) { return a + b; });
      return true;
    case Reduction::kMultiply:
      Accumulate<T>(into, from, bytes, [](auto a, auto b) { return a * b; });
      return true;
    case Reduction::kMaximum:
      if constexpr (!kIsComplex) Accumulate<T>(into, from, bytes, kLargest);
      return !kIsComplex;
    case Reduction::kMinimum:
      if constexpr (!kIsComplex) Accumulate<T>(into, from, bytes, kSmallest);
      return !kIsComplex;
    case Reduction::kAnd:
      if constexpr (std::is_integral_v<T>) {
        Accumulate<T>(into, from, bytes, [](auto a, auto b) { return a & b; });
      }
      return std::is_integral_v<T>;
    case Reduction::kOr:
      if constexpr (std::is_integral_v<T>) {
        Accumulate<T>(into, from, bytes, [](auto a, auto b) { return a | b; });
      }
      return std::is_integral_v<T>;
    default:
      return false;
  }
}

// A pred is a byte of 0 or 1: its sum is an or, its product an and.
bool AccumulatePreds(Reduction reduction, char* into, const char* from, size_t bytes) {
  const bool either = reduction == Reduction::kAdd || reduction == Reduction::kOr ||
                      reduction == Reduction::kMaximum;
  return AccumulateNumbers<uint8_t>(either ? Reduction::kOr : Reduction::kAnd, into, from, bytes);
}

// False where the type has no such reduction.
bool Reduce(ElementType type, Reduction reduction, char* into, const char* from, size_t bytes) {
  switch (type) {
    case ElementType::kPred:
      return AccumulatePreds(reduction, into, from, bytes);
    case ElementType::kS8:
      return AccumulateNumbers<int8_t>(reduction, into, from, bytes);
    case ElementType::kS16:
      return AccumulateNumbers<int16_t>(reduction, into, from, bytes);
    case ElementType::kS32:
      return AccumulateNumbers<int32_t>(reduction, into, from, bytes);
    case ElementType::kS64:
      return AccumulateNumbers<int64_t>(reduction, into, from, bytes);
    case ElementType::kU8:
      return AccumulateNumbers<uint8_t>(reduction, into, from, bytes);
    case ElementType::kU16:
      return AccumulateNumbers<uint16_t>(reduction, into, from, bytes);
    case ElementType::kU32:
      return AccumulateNumbers<uint32_t>(reduction, into, from, bytes);
    case ElementType::kU64:
      return AccumulateNumbers<uint64_t>(reduction, into, from, bytes);
    case ElementType::kF16:
      return AccumulateNumbers<_Float16>(reduction, into, from, bytes);
    case ElementType::kBF16:
      return AccumulateNumbers<BFloat16>(reduction, into, from, bytes);
    case ElementType::kF32:
      return AccumulateNumbers<float>(reduction, into, from, bytes);
    case ElementType::kF64:
      return AccumulateNumbers<double>(reduction, into, from, bytes);
    case ElementType::kC64:
      return AccumulateNumbers<std::complex<float>>(reduction, into, from, bytes);
    case ElementType::kC128:
      return AccumulateNumbers<std::complex<double>>(reduction, into, from, bytes);
    default:
      return false;
  }
}

// The first member's operand, and onto it those of the others in order, so that all get the same
// bits.
Status ReduceAll(const Collective& collective, std::span<const Member> members, size_t operand,
                 std::span<char> into) {
  const Operand& first = members[0].operands[operand];
  std::copy_n(first.data, into.size(), into.data());
  for (const Member& member : members.subspan(1)) {
    if (!Reduce(first.type, collective.reduction, into.data(), member.operands[operand].data,
                into.size())) {
      return Unimplemented("A collective of {} cannot reduce so.", program::NameOf(first.type));
    }
  }
  return Status();
}

// ---- Copies

// Rows of an array, each of `members` blocks where it is shared out.
struct Blocks {
  Blocks(const Operand& operand, int64_t dimension, size_t bytes) {
    for (size_t d = 0; d < operand.dimensions.size() && std::cmp_less(d, dimension); ++d) {
      rows *= static_cast<size_t>(operand.dimensions[d]);
    }
    row_bytes = rows == 0 ? 0 : bytes / rows;
  }
  size_t rows = 1;
  size_t row_bytes = 0;
};

// Block `from_block` of each row of `from` to block `to_block` of each row of `to`.
void CopyBlocks(size_t rows, size_t bytes, const char* from, size_t from_row, size_t from_block,
                char* to, size_t to_row, size_t to_block) {
  for (size_t row = 0; row < rows; ++row) {
    std::copy_n(from + row * from_row + from_block * bytes, bytes,
                to + row * to_row + to_block * bytes);
  }
}

void Gather(const Blocks& blocks, std::span<Member> members, size_t operand) {
  for (Member& to : members) {
    for (size_t m = 0; m < members.size(); ++m) {
      CopyBlocks(blocks.rows, blocks.row_bytes, members[m].operands[operand].data, blocks.row_bytes,
                 0, to.results[operand].data(), blocks.row_bytes * members.size(), m);
    }
  }
}

void Exchange(const Blocks& blocks, std::span<Member> members, size_t operand) {
  const size_t bytes = blocks.row_bytes / members.size();
  for (size_t t = 0; t < members.size(); ++t) {
    for (size_t m = 0; m < members.size(); ++m) {
      CopyBlocks(blocks.rows, bytes, members[m].operands[operand].data, blocks.row_bytes, t,
                 members[t].results[operand].data(), blocks.row_bytes, m);
    }
  }
}

Status ScatterReduced(const Collective& collective, const Blocks& blocks, std::span<Member> members,
                      size_t operand) {
  std::vector<char> reduced(blocks.rows * blocks.row_bytes);
  TORUS_RETURN_IF_ERROR(ReduceAll(collective, members, operand, reduced));
  const size_t bytes = blocks.row_bytes / members.size();
  for (size_t m = 0; m < members.size(); ++m) {
    CopyBlocks(blocks.rows, bytes, reduced.data(), blocks.row_bytes, m,
               members[m].results[operand].data(), bytes, 0);
  }
  return Status();
}

// What no pair names as its target gets zeros.
void Permute(const Collective& collective, std::span<Member> members, size_t operand) {
  for (Member& to : members) {
    const auto pair = std::ranges::find_if(collective.groups, [&](const auto& pair) {
      return pair.size() == 2 && pair[1] == to.replica;
    });
    const auto from = pair == collective.groups.end()
                          ? members.end()
                          : std::ranges::find(members, (*pair)[0], &Member::replica);
    const std::span<char> result = to.results[operand];
    if (from == members.end()) {
      std::ranges::fill(result, '\0');
    } else {
      std::copy_n(from->operands[operand].data, result.size(), result.data());
    }
  }
}

// ---- Checks

bool SharesOut(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
}

Status CheckOperand(const Collective& collective, const Operand& operand, size_t members) {
  const bool has_dimension =
      SharesOut(collective.kind) || collective.kind == CollectiveKind::kAllGather;
  if (!has_dimension) return Status();
  const auto dimension = static_cast<size_t>(collective.dimension);
  if (dimension < operand.dimensions.size() &&
      (!SharesOut(collective.kind) ||
       operand.dimensions[dimension] % static_cast<int64_t>(members) == 0)) {
    return Status();
  }
  return InvalidArgument(
      "A collective of {} members along dimension {} has an array that it cannot share out.",
      members, dimension);
}

bool Alike(std::span<const Operand> a, std::span<const Operand> b) {
  return std::ranges::equal(a, b, [](const Operand& a, const Operand& b) {
    return a.type == b.type && a.dimensions == b.dimensions;
  });
}

Status CheckMembers(const Collective& collective, std::span<const Member> members) {
  const auto& first = members.front().operands;
  TORUS_ASSIGN_OR_RETURN(const auto sizes, ResultBytes(collective, first, members.size()));
  for (const Member& member : members) {
    if (!Alike(first, member.operands)) {
      return InvalidArgument(
          "Devices {} and {} bring arrays of different shapes or types to one collective; they "
          "must "
          "run the same collectives in the same order.",
          members.front().replica, member.replica);
    }
    if (!std::ranges::equal(sizes, member.results, {}, {}, &std::span<char>::size)) {
      return InvalidArgument("Device {} expects a result of another size from a collective.",
                             member.replica);
    }
  }
  return Status();
}

}  // namespace

Result<size_t> Operand::Bytes() const {
  const auto bits = static_cast<size_t>(program::BitsOf(type));
  if (bits < 8)
    return InvalidArgument("A collective of {} is not possible.", program::NameOf(type));
  size_t bytes = bits / 8;
  for (const int64_t dimension : dimensions) {
    if (dimension < 0 || static_cast<size_t>(dimension) > kMaxBytes / std::max<size_t>(bytes, 1)) {
      return InvalidArgument("An array of a collective is too large.");
    }
    bytes *= static_cast<size_t>(dimension);
  }
  return bytes;
}

Result<std::vector<size_t>> ResultBytes(const Collective& collective,
                                        std::span<const Operand> operands, size_t members) {
  std::vector<size_t> sizes;
  for (const Operand& operand : operands) {
    TORUS_RETURN_IF_ERROR(CheckOperand(collective, operand, members));
    TORUS_ASSIGN_OR_RETURN(size_t bytes, operand.Bytes());
    if (collective.kind == CollectiveKind::kReduceScatter) bytes /= members;
    if (collective.kind == CollectiveKind::kAllGather) bytes *= members;
    sizes.push_back(bytes);
  }
  if (collective.kind == CollectiveKind::kAllToAllTuple && operands.size() != members) {
    return InvalidArgument("An all-to-all of {} members has {} arrays.", members, operands.size());
  }
  return sizes;
}

Status Combine(const Collective& collective, std::span<Member> members) {
  TORUS_RETURN_IF_ERROR(CheckMembers(collective, members));
  for (size_t o = 0; o < members.front().operands.size(); ++o) {
    const Operand& operand = members.front().operands[o];
    TORUS_ASSIGN_OR_RETURN(const size_t bytes, operand.Bytes());
    const Blocks blocks(operand, collective.dimension, bytes);
    const auto copy_to_all = [&](const char* from) {
      for (Member& member : members) std::memmove(member.results[o].data(), from, bytes);
    };
    switch (collective.kind) {
      case CollectiveKind::kAllReduce:
        TORUS_RETURN_IF_ERROR(ReduceAll(collective, members, o, members.front().results[o]));
        copy_to_all(members.front().results[o].data());
        break;
      case CollectiveKind::kReduceScatter:
        TORUS_RETURN_IF_ERROR(ScatterReduced(collective, blocks, members, o));
        break;
      case CollectiveKind::kAllGather:
        Gather(blocks, members, o);
        break;
      case CollectiveKind::kAllToAll:
        Exchange(blocks, members, o);
        break;
      case CollectiveKind::kAllToAllTuple:
        for (size_t m = 0; m < members.size(); ++m) {
          std::copy_n(members[m].operands[o].data, bytes, members[o].results[m].data());
        }
        break;
      case CollectiveKind::kPermute:
        Permute(collective, members, o);
        break;
      case CollectiveKind::kBroadcast:
        copy_to_all(operand.data);
        break;
    }
  }
  return Status();
}

}  // namespace torus::kernels
