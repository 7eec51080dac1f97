// Where unreduced values are constrained, and that other programs stay as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/rewrite.h"
#include "tpu/program/testing.h"

namespace torus::program {
namespace {

constexpr char kUnreduced[] = R"(<@mesh, [{}], unreduced={"x"}>)";
constexpr char kWhole[] = "<@mesh, [{}]>";

std::string PerValue(const std::string& shardings) {
  return "#sdy.sharding_per_value<[" + shardings + "]>";
}

void SetAttribute(ModuleBuilder& m, int64_t id, const char* name, const std::string& value) {
  auto others = m.Others(id);
  protozero::pbf_writer attributes(others, 68);
  protozero::pbf_writer entry(attributes, 1);
  entry.add_string(1, name);
  entry.add_string(2, value);
}

// A shard_map of two arguments, of which the first has the sharding.
HloModule ShardMap(const std::string& sharding) {
  const auto shape = ArrayShape(ElementType::kF32, {8});
  ModuleBuilder m;
  const int64_t x = m.Add("parameter", shape), y = m.Add("parameter", shape);
  SetAttribute(m, x, "xla.sdy.sharding", "#sdy.sharding" + sharding);
  const int64_t sum = m.Add("add", shape, {x, y});
  const int64_t local = m.Add("custom-call", TupleShape({shape, shape}), {x, sum});
  m[local].custom_call_target = "xla.sdy.GlobalToLocalShape";
  SetAttribute(m, local, "xla.sdy.in_shardings", PerValue(sharding + ", " + kWhole));
  return m.Build();
}

std::string ShardingOfOperand(const HloModule& module, int64_t id, size_t operand) {
  const auto& constraint = *module.entry()->Find(module.entry()->Find(id)->operands[operand]);
  if (constraint.custom_call_target != "Sharding") return constraint.opcode;
  return FrontendAttributesOf(constraint).at("xla.sdy.sharding");
}

TEST(ConstrainUnreduced, SaysWhatArgumentsAndOperandsAre) {
  HloModule module = ShardMap(kUnreduced);
  ASSERT_TRUE(*Rewrite(module));
  ASSERT_TRUE(ReadHlo(WriteHlo(module)));
  EXPECT_EQ(ShardingOfOperand(module, 3, 0), PerValue(kUnreduced));  // the argument, for all
  EXPECT_EQ(ShardingOfOperand(module, 3, 1), "parameter");
  EXPECT_EQ(ShardingOfOperand(module, 4, 0), PerValue(kUnreduced));
  EXPECT_EQ(ShardingOfOperand(module, 4, 1), PerValue(kWhole));
}

TEST(ConstrainUnreduced, LeavesOtherProgramsAlone) {
  HloModule module = ShardMap(kWhole);
  EXPECT_FALSE(*Rewrite(module));
}

}  // namespace
}  // namespace torus::program
