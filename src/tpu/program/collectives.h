// Collectives as calls of Torus's own: how devices that run different programs, or run them in
// different processes, meet. The engine's own bring only the replicas of one executable together.
// Thread-safety: pure.
#ifndef TORUS_TPU_PROGRAM_COLLECTIVES_H_
#define TORUS_TPU_PROGRAM_COLLECTIVES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tpu/program/hlo.h"

namespace torus::program {

enum class CollectiveKind : int64_t {
  kAllReduce = 0,
  kReduceScatter = 1,
  kAllGather = 2,
  kAllToAll = 3,       // one array, split and put together along `dimension`
  kAllToAllTuple = 4,  // an operand for each member
  kPermute = 5,
  kBroadcast = 6,  // from a group's first member
};

enum class Reduction : int64_t {
  kNone = 0,
  kAdd = 1,
  kMultiply = 2,
  kMaximum = 3,
  kMinimum = 4,
  kAnd = 5,
  kOr = 6,
};

struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kNone;
  int64_t dimension = 0;
  // Of replicas; empty: all are one group. Of a kPermute: pairs of source and target.
  std::vector<std::vector<int64_t>> groups;

  bool operator==(const Collective&) const = default;

  // As a list of numbers, for a call's attribute and for other processes.
  std::vector<int64_t> ToInts() const;
  // INVALID_ARGUMENT where the numbers are no such list.
  static Result<Collective> FromInts(std::span<const int64_t> ints);
};

// Turns each collective of the module into a call of kCollectiveTarget, and each replica-id into
// one of kReplicaTarget; how many there were. UNIMPLEMENTED, with its name, for one that cannot be.
Result<int> CallCollectives(HloModule& module);

// Results and operands are the collective's. The attributes: its numbers, and its place among the
// module's collectives.
inline constexpr char kCollectiveTarget[] = "torus.collective";
inline constexpr char kCollectiveAttribute[] = "collective";
inline constexpr char kPlaceAttribute[] = "place";
inline constexpr char kReplicaTarget[] = "torus.replica";  // -> u32[]
// A program with collectives waits, so it must not run on its caller's thread, as the engine runs
// what it thinks cheap. So the first collective has one operand more: some products of these
// numbers.
inline constexpr char kWeightTarget[] = "torus.weight";  // -> f32[n]

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_COLLECTIVES_H_
