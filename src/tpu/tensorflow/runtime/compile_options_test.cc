#include "tpu/tensorflow/runtime/compile_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

namespace torus::tensorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// A message's numbers, and its messages as bytes; each field once but the last one's.
struct Fields {
  std::map<int, int64_t> numbers;
  std::map<int, std::vector<std::string>> messages;
};

Fields FieldsOf(const std::string& bytes) {
  Fields fields;
  protozero::pbf_reader reader(bytes);
  while (reader.next()) {
    const int tag = static_cast<int>(reader.tag());
    if (reader.wire_type() == protozero::pbf_wire_type::varint)
      fields.numbers[tag] = reader.get_int64();
    else
      fields.messages[tag].push_back(reader.get_string());
  }
  return fields;
}

std::vector<int64_t> PackedOf(const std::string& bytes, int field) {
  protozero::pbf_reader reader(bytes);
  EXPECT_TRUE(reader.next(field));
  const auto ids = reader.get_packed_int64();
  return {ids.begin(), ids.end()};
}

// The numbers are xla/pjrt/proto/compile_options.proto's and xla/xla_data.proto's.
TEST(CompileOptions, OfNoDevicesAreForAnyOneDevice) {
  const auto options = FieldsOf(Serialize({}));
  EXPECT_THAT(options.numbers, UnorderedElementsAre(Pair(4, 1)));  // compile_portable_executable
  ASSERT_THAT(options.messages, ElementsAre(Pair(3, ::testing::SizeIs(1))));
  const auto build = FieldsOf(options.messages.at(3)[0]);
  EXPECT_THAT(build.numbers, UnorderedElementsAre(Pair(1, -1), Pair(4, 1), Pair(5, 1)));
  EXPECT_TRUE(build.messages.empty());
}

TEST(CompileOptions, NameEachReplicasDevicePartitionByPartition) {
  const auto options = FieldsOf(Serialize({.replicas = 2,
                                           .partitions = 3,
                                           .spmd = true,
                                           .tuple_arguments = true,
                                           .device_ids = {10, 11, 12, 20, 21, 22}}));
  EXPECT_THAT(options.numbers, UnorderedElementsAre(Pair(2, 1)));  // parameter_is_tupled_arguments
  const auto build = FieldsOf(options.messages.at(3)[0]);
  EXPECT_THAT(build.numbers, UnorderedElementsAre(Pair(1, -1), Pair(4, 2), Pair(5, 3), Pair(6, 1)));
  const auto assignment = FieldsOf(build.messages.at(9)[0]);
  EXPECT_THAT(assignment.numbers, UnorderedElementsAre(Pair(1, 2), Pair(2, 3)));
  const auto& computations = assignment.messages.at(3);
  ASSERT_EQ(computations.size(), 3u);
  EXPECT_THAT(PackedOf(computations[0], 1), ElementsAre(10, 20));
  EXPECT_THAT(PackedOf(computations[1], 1), ElementsAre(11, 21));
  EXPECT_THAT(PackedOf(computations[2], 1), ElementsAre(12, 22));
}

}  // namespace
}  // namespace torus::tensorflow
