// Reads what a collective says of itself, by the field numbers of openxla/xla's hlo.proto.
#include "tpu/program/collectives.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tpu/program/edit.h"
#include "tpu/program/maker.h"
#include "tpu/program/wire.h"

namespace torus::program {
namespace {

using Groups = std::vector<std::vector<int64_t>>;

constexpr int64_t kMaxMembers = 1 << 16;

constexpr std::pair<std::string_view, CollectiveKind> kKinds[] = {
    {"all-reduce", CollectiveKind::kAllReduce},
    {"reduce-scatter", CollectiveKind::kReduceScatter},
    {"all-gather", CollectiveKind::kAllGather},
    {"all-to-all", CollectiveKind::kAllToAll},
    {"collective-permute", CollectiveKind::kPermute},
    {"collective-broadcast", CollectiveKind::kBroadcast},
};
// What waits for another device in another way. Each begins the names of asynchronous forms, too.
constexpr std::string_view kOthers[] = {
    "all-reduce-", "all-gather-", "collective-",  "ragged-all-to-all",
    "send",        "recv",        "partition-id",
};

constexpr std::pair<std::string_view, Reduction> kReductions[] = {
    {"add", Reduction::kAdd},         {"multiply", Reduction::kMultiply},
    {"maximum", Reduction::kMaximum}, {"minimum", Reduction::kMinimum},
    {"and", Reduction::kAnd},         {"or", Reduction::kOr},
};

template <typename Value, size_t kCount>
std::optional<Value> Look(const std::pair<std::string_view, Value> (&table)[kCount],
                          std::string_view name) {
  const auto* const found =
      std::ranges::find(table, name, &std::pair<std::string_view, Value>::first);
  return found == std::end(table) ? std::nullopt : std::optional(found->second);
}

// ---- Groups

// xla.IotaReplicaGroupListProto: the numbers from 0 on in a box, whose axes are swapped, in rows.
std::optional<Groups> ReadIota(std::string_view iota) {
  const auto count = wire::FindInt(iota, 1).value_or(0), size = wire::FindInt(iota, 2).value_or(0);
  const auto shape = wire::FindInts(iota, 3), order = wire::FindInts(iota, 4);
  if (count < 1 || size < 1 || count > kMaxMembers / size || shape.size() != order.size()) {
    return std::nullopt;
  }
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  Groups groups(count, std::vector<int64_t>(size));
  for (int64_t at = 0; at < count * size; ++at) {
    int64_t rest = at, number = 0;
    for (size_t i = order.size(); i-- > 0;) {
      const auto axis = static_cast<size_t>(order[i]);
      if (axis >= shape.size() || shape[axis] < 1) return std::nullopt;
      number += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    groups[at / size][at % size] = number;
  }
  return groups;
}

std::optional<Groups> ReadGroups(const HloInstruction& instruction) {
  constexpr protozero::pbf_tag_type kReplicaGroups = 49, kCollectiveDeviceList = 87;
  const auto list = wire::FindBytes(instruction.others, kCollectiveDeviceList);
  if (list) {
    if (const auto iota = wire::FindBytes(*list, 2)) return ReadIota(*iota);
  }
  Groups groups;
  for (const auto group : list ? wire::FindAllBytes(*list, 1)
                               : wire::FindAllBytes(instruction.others, kReplicaGroups)) {
    groups.push_back(wire::FindInts(group, 1));
  }
  return groups;
}

Groups ReadPairs(const HloInstruction& permute) {
  constexpr protozero::pbf_tag_type kSourceTargetPairs = 52;
  Groups pairs;
  for (const auto pair : wire::FindAllBytes(permute.others, kSourceTargetPairs)) {
    pairs.push_back({wire::FindInt(pair, 1).value_or(0), wire::FindInt(pair, 2).value_or(0)});
  }
  return pairs;
}

std::optional<Groups> FindGroups(const HloInstruction& instruction, CollectiveKind kind) {
  try {
    return kind == CollectiveKind::kPermute ? ReadPairs(instruction) : ReadGroups(instruction);
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

// ---- One collective

// The operation of two parameters that a computation is.
std::optional<Reduction> ReductionOf(const HloModule& module, const HloInstruction& instruction) {
  if (instruction.called.size() != 1) return std::nullopt;
  const HloComputation* computation = module.Find(instruction.called.front());
  if (computation->instructions.size() != 3) return std::nullopt;
  const HloInstruction* root = computation->Find(computation->root_id);
  if (root == nullptr || root->operands.size() != 2 || root->operands[0] == root->operands[1]) {
    return std::nullopt;
  }
  return Look(kReductions, root->opcode);
}

Result<Collective> Read(const HloModule& module, const HloInstruction& instruction,
                        CollectiveKind kind) {
  Collective collective{.kind = kind};
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter) {
    const auto reduction = ReductionOf(module, instruction);
    if (!reduction) {
      return Unimplemented(
          "The {} '{}' reduces by a computation of its own; it can be a sum, product, minimum, "
          "maximum, and, or.",
          instruction.opcode, instruction.name);
    }
    collective.reduction = *reduction;
  }
  auto groups = FindGroups(instruction, kind);
  if (!groups) return InvalidArgument("The groups of '{}' cannot be read.", instruction.name);
  collective.groups = *std::move(groups);
  if (!instruction.dimensions.empty()) collective.dimension = instruction.dimensions.front();
  if (kind == CollectiveKind::kAllToAll && instruction.shape.is_tuple()) {
    collective.kind = CollectiveKind::kAllToAllTuple;
    collective.dimension = 0;
  }
  return collective;
}

// Gives the instruction at `at` the operand that makes its program dear; where it is then.
size_t AddWeight(const HloModule& module, HloComputation& computation, size_t at) {
  constexpr int64_t kFlops = 8192;  // an engine takes less than 1000 for cheap
  const HloShape shape = ArrayShape(ElementType::kF32, {kFlops});
  Maker make(module, computation, computation.instructions[at], "weight");
  const int64_t numbers = make.Make("custom-call", shape, {});
  MakeFfiCall(computation, make.last(), kWeightTarget, "{}", /*has_side_effect=*/false);
  const int64_t products = make.Make("multiply", shape, {numbers, numbers});
  at += make.PutBefore(computation, at);
  computation.instructions[at].operands.push_back(products);
  return at;
}

void MakeCall(const HloComputation& computation, HloInstruction& instruction,
              const Collective& collective, int place) {
  const auto attributes =
      fmt::format("{{{} = array<i64: {}>, {} = {} : i64}}", kCollectiveAttribute,
                  fmt::join(collective.ToInts(), ", "), kPlaceAttribute, place);
  // A side effect: what one device left out would be missing to the others.
  MakeFfiCall(computation, instruction, kCollectiveTarget, attributes, /*has_side_effect=*/true);
  instruction.called.clear();
  instruction.dimensions.clear();
}

bool MeetsOtherwise(const HloInstruction& instruction) {
  return std::ranges::any_of(kOthers,
                             [&](auto opcode) { return instruction.opcode.starts_with(opcode); });
}

}  // namespace

std::vector<int64_t> Collective::ToInts() const {
  std::vector<int64_t> ints{static_cast<int64_t>(kind), static_cast<int64_t>(reduction), dimension};
  for (const auto& group : groups) {
    ints.push_back(static_cast<int64_t>(group.size()));
    ints.insert(ints.end(), group.begin(), group.end());
  }
  return ints;
}

Result<Collective> Collective::FromInts(std::span<const int64_t> ints) {
  const auto wrong = [] { return InvalidArgument("These numbers describe no collective."); };
  if (ints.size() < 3 || ints[0] < 0 ||
      ints[0] > static_cast<int64_t>(CollectiveKind::kBroadcast) || ints[1] < 0 ||
      ints[1] > static_cast<int64_t>(Reduction::kOr) || ints[2] < 0) {
    return wrong();
  }
  Collective collective{.kind = static_cast<CollectiveKind>(ints[0]),
                        .reduction = static_cast<Reduction>(ints[1]),
                        .dimension = ints[2],
                        .groups = {}};
  for (auto rest = ints.subspan(3); !rest.empty();) {
    const int64_t size = rest[0];
    if (size < 1 || static_cast<size_t>(size) >= rest.size()) return wrong();
    collective.groups.emplace_back(rest.begin() + 1, rest.begin() + 1 + size);
    rest = rest.subspan(1 + static_cast<size_t>(size));
  }
  return collective;
}

Result<int> CallCollectives(HloModule& module) {
  int collectives = 0, calls = 0;
  for (auto& computation : module.computations) {
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      if (collectives == 0 && Look(kKinds, computation.instructions[i].opcode)) {
        i = AddWeight(module, computation, i);
      }
      HloInstruction& instruction = computation.instructions[i];
      if (instruction.opcode == "replica-id") {
        MakeFfiCall(computation, instruction, kReplicaTarget, "{}", /*has_side_effect=*/false);
        ++calls;
      } else if (const auto kind = Look(kKinds, instruction.opcode)) {
        TORUS_ASSIGN_OR_RETURN(const auto collective, Read(module, instruction, *kind));
        MakeCall(computation, instruction, collective, collectives++);
        ++calls;
      } else if (MeetsOtherwise(instruction)) {
        return Unimplemented(
            "The program '{}' has a '{}' ('{}'), which replicas that run one by one cannot have.",
            module.name, instruction.opcode, instruction.name);
      }
    }
  }
  return calls;
}

}  // namespace torus::program
