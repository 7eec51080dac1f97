#include "tpu/kernels/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace torus::kernels {
namespace {

using program::Collective;
using program::CollectiveKind;
using program::ElementType;
using program::Reduction;
using ::testing::ElementsAre;

// The arrays of one group, of one type and shape; each member brings the next.
template <typename T>
class Group {
 public:
  Group(ElementType type, std::vector<int64_t> dimensions, std::vector<std::vector<T>> arrays)
      : type_(type), dimensions_(std::move(dimensions)), arrays_(std::move(arrays)) {}

  // What each member gets; empty where it cannot be.
  std::vector<std::vector<T>> Run(const Collective& collective) {
    std::vector<Member> members;
    std::vector<std::vector<T>> results(arrays_.size());
    for (size_t m = 0; m < arrays_.size(); ++m) {
      const auto* data = reinterpret_cast<const char*>(arrays_[m].data());
      Member member{.replica = static_cast<int64_t>(m),
                    .operands = {{type_, dimensions_, data}},
                    .results = {}};
      const auto bytes = ResultBytes(collective, member.operands, arrays_.size());
      if (!bytes) return {};
      results[m].resize(bytes->front() / sizeof(T));
      member.results.emplace_back(reinterpret_cast<char*>(results[m].data()), bytes->front());
      members.push_back(std::move(member));
    }
    if (!Combine(collective, members).ok()) return {};
    return results;
  }

 private:
  const ElementType type_;
  const std::vector<int64_t> dimensions_;
  const std::vector<std::vector<T>> arrays_;
};

Collective AllReduce(Reduction reduction) { return {.reduction = reduction}; }

TEST(Collectives, ReduceForAll) {
  Group<float> floats(ElementType::kF32, {2}, {{1, 8}, {2, -1}, {4, 3}});
  EXPECT_THAT(floats.Run(AllReduce(Reduction::kAdd)),
              ElementsAre(ElementsAre(7, 10), ElementsAre(7, 10), ElementsAre(7, 10)));
  EXPECT_THAT(floats.Run(AllReduce(Reduction::kMultiply))[2], ElementsAre(8, -24));
  EXPECT_THAT(floats.Run(AllReduce(Reduction::kMaximum))[1], ElementsAre(4, 8));
  EXPECT_THAT(floats.Run(AllReduce(Reduction::kMinimum))[1], ElementsAre(1, -1));
  EXPECT_THAT(floats.Run(AllReduce(Reduction::kAnd)), ElementsAre());  // floats have none

  Group<uint8_t> preds(ElementType::kPred, {3}, {{0, 1, 1}, {0, 0, 1}});
  EXPECT_THAT(preds.Run(AllReduce(Reduction::kAdd))[0], ElementsAre(0, 1, 1));
  EXPECT_THAT(preds.Run(AllReduce(Reduction::kMinimum))[0], ElementsAre(0, 0, 1));
}

TEST(Collectives, ANanWins) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Group<float> floats(ElementType::kF32, {2}, {{kNan, 1}, {2, kNan}});
  for (const auto reduction : {Reduction::kMaximum, Reduction::kMinimum}) {
    const auto results = floats.Run(AllReduce(reduction));
    EXPECT_TRUE(std::isnan(results[0][0]) && std::isnan(results[1][1]));
  }
}

TEST(Collectives, RoundHalvesAsChipsDo) {
  // bf16 has 8 bits: 256 + 1 is halfway, and goes to the even one; 256 + 3 goes up.
  Group<uint16_t> halves(ElementType::kBF16, {2}, {{0x4380, 0x4380}, {0x3f80, 0x4040}});
  EXPECT_THAT(halves.Run(AllReduce(Reduction::kAdd))[0], ElementsAre(0x4380, 0x4382));
}

TEST(Collectives, GatherAndShareOutAlongAnyDimension) {
  Group<int32_t> square(ElementType::kS32, {2, 2}, {{1, 2, 3, 4}, {10, 20, 30, 40}});
  Collective collective{.kind = CollectiveKind::kAllGather, .dimension = 0};
  EXPECT_THAT(square.Run(collective)[1], ElementsAre(1, 2, 3, 4, 10, 20, 30, 40));
  collective.dimension = 1;
  EXPECT_THAT(square.Run(collective)[0], ElementsAre(1, 2, 10, 20, 3, 4, 30, 40));
  collective.kind = CollectiveKind::kAllToAll;
  EXPECT_THAT(square.Run(collective),
              ElementsAre(ElementsAre(1, 10, 3, 30), ElementsAre(2, 20, 4, 40)));
  collective = {
      .kind = CollectiveKind::kReduceScatter, .reduction = Reduction::kAdd, .dimension = 1};
  EXPECT_THAT(square.Run(collective), ElementsAre(ElementsAre(11, 33), ElementsAre(22, 44)));
  collective.dimension = 2;
  EXPECT_THAT(square.Run(collective), ElementsAre());
}

TEST(Collectives, SendToOthers) {
  Group<int32_t> numbers(ElementType::kS32, {}, {{1}, {2}, {3}});
  const Collective shift{.kind = CollectiveKind::kPermute, .groups = {{0, 1}, {1, 2}}};
  EXPECT_THAT(numbers.Run(shift), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  const Collective first{.kind = CollectiveKind::kBroadcast};
  EXPECT_THAT(numbers.Run(first), ElementsAre(ElementsAre(1), ElementsAre(1), ElementsAre(1)));
}

TEST(Collectives, RefuseWhatDiffers) {
  const float data[2] = {};
  const auto* bytes = reinterpret_cast<const char*>(data);
  std::vector<char> result(8);
  std::vector<Member> members(2);
  for (size_t m = 0; m < 2; ++m) {
    members[m] = {.replica = static_cast<int64_t>(m),
                  .operands = {{ElementType::kF32, {2}, bytes}},
                  .results = {std::span(result)}};
  }
  EXPECT_TRUE(Combine(AllReduce(Reduction::kAdd), members).ok());
  members[1].results = {std::span(result).first(4)};
  EXPECT_EQ(Combine(AllReduce(Reduction::kAdd), members).code(), Code::kInvalidArgument);
  members[1].results = {std::span(result)};
  members[1].operands[0].dimensions = {1};
  EXPECT_EQ(Combine(AllReduce(Reduction::kAdd), members).code(), Code::kInvalidArgument);
  members[0].operands[0].dimensions = {int64_t{1} << 60};
  EXPECT_FALSE(members[0].operands[0].Bytes());
}

}  // namespace
}  // namespace torus::kernels
