#include "tpu/device/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "slice/description.h"

namespace torus::tpu {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Expected {
  const char* type;
  size_t devices;
  const char* kind;
  int cores_per_device;
  std::array<int64_t, 3> last_coords;
  int last_core;
};
class Slices : public ::testing::TestWithParam<Expected> {};

TEST_P(Slices, ShowTheDevicesThatUpstreamShows) {
  const auto& expected = GetParam();
  const auto slice = Slice::Read({.accelerator_type = expected.type});
  ASSERT_TRUE(slice) << slice.error().ToString();
  EXPECT_EQ(slice->devices().size(), expected.devices);
  EXPECT_EQ(slice->generation().device_kind, expected.kind);
  EXPECT_EQ(slice->cores_per_device(), expected.cores_per_device);
  EXPECT_EQ(slice->devices().back().coords, expected.last_coords);
  EXPECT_EQ(slice->devices().back().core_on_chip, expected.last_core);
}

INSTANTIATE_TEST_SUITE_P(
    All, Slices,
    ::testing::Values(Expected{"v2-8", 8, "TPU v2", 1, {1, 1, 0}, 1},
                      Expected{"v3-32", 32, "TPU v3", 1, {3, 3, 0}, 1},
                      Expected{"v4-8", 4, "TPU v4", 2, {1, 1, 0}, 0},
                      Expected{"v4-32", 16, "TPU v4", 2, {1, 1, 3}, 0},
                      Expected{"v5litepod-1", 1, "TPU v5 lite", 1, {0, 0, 0}, 0},
                      Expected{"v5litepod-8", 8, "TPU v5 lite", 1, {1, 3, 0}, 0},
                      Expected{"v5p-8", 4, "TPU v5", 2, {1, 1, 0}, 0},
                      Expected{"v6e-8", 8, "TPU v6 lite", 1, {1, 3, 0}, 0}));

TEST(Slice, IsAV4WhereNothingIsTold) {
  const auto slice = Slice::Read({});
  ASSERT_TRUE(slice);
  EXPECT_EQ(slice->accelerator_type(), "v4-8");
}

TEST(Slice, NamesDevicesAsUpstream) {
  const auto slice = Slice::Read({.accelerator_type = "v2-8"});
  ASSERT_TRUE(slice);
  const DeviceIdentity& device = slice->devices()[5];
  EXPECT_EQ(device.id, 5);
  EXPECT_THAT(device.coords, ElementsAre(0, 1, 0));
  EXPECT_EQ(device.debug_string, "TPU_5(process=0,(0,1,0,1))");
  EXPECT_EQ(device.to_string, "TpuDevice(id=5, process_index=0, coords=(0,1,0), core_on_chip=1)");
  EXPECT_EQ(device.hbm_name, "0x1x0_HBM1");
}

class SliceFile : public ::testing::Test {
 protected:
  ~SliceFile() override { std::remove(path_.c_str()); }
  Result<Slice> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return Slice::Read({.description_file = path_});
  }
  const std::string path_ = ::testing::TempDir() + "/slice_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(SliceFile, Describes) {
  const auto slice =
      Read("ACCELERATOR_TYPE: 'v5litepod-8'\nTOPOLOGY: '2x4'\nTORUS_MEMORY_LIMIT_BYTES: '1024'\n");
  ASSERT_TRUE(slice) << slice.error().ToString();
  EXPECT_EQ(slice->devices().size(), 8u);
  EXPECT_EQ(slice->memory_limit_bytes(), 1024);
}

TEST_F(SliceFile, GoesBeforeTheAcceleratorType) {
  std::ofstream(path_) << "ACCELERATOR_TYPE: 'v2-8'\n";
  const auto slice = Slice::Read({.default_file = path_, .accelerator_type = "v4-8"});
  ASSERT_TRUE(slice) << slice.error().ToString();
  EXPECT_EQ(slice->accelerator_type(), "v2-8");
}

TEST_F(SliceFile, ErrorsNameTheFileAndTheFault) {
  EXPECT_THAT(Read("nonsense").error().message(), AllOf(HasSubstr(path_), HasSubstr("line 1")));
  EXPECT_THAT(Read("ACCELERATOR_TYPE: 'v9-8'\n").error().message(),
              AllOf(HasSubstr(path_), HasSubstr("v9-8"), HasSubstr("valid types")));
  EXPECT_THAT(Read("ACCELERATOR_TYPE: 'v2-8'\nTOPOLOGY: '4x4'\n").error().message(),
              AllOf(HasSubstr(path_), HasSubstr("TOPOLOGY '4x4'"), HasSubstr("2x2")));
  EXPECT_THAT(Read("ACCELERATOR_TYPE: 'v2-8'\nTOPOLOGY: 'x'\n").error().message(),
              HasSubstr("TOPOLOGY 'x'"));
  const auto many =
      Read("ACCELERATOR_TYPE: 'v2-32'\nTORUS_WORKER_ADDRESSES: '10.0.0.1,10.0.0.2'\n");
  EXPECT_EQ(many.error().code(), Code::kUnimplemented);
  EXPECT_THAT(many.error().message(), HasSubstr("2 hosts"));
}

TEST(Slice, AMissingNamedFileIsAnErrorAndAMissingDefaultIsNot) {
  const auto named = Slice::Read({.description_file = "/no/such/slice"});
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message(),
              AllOf(HasSubstr("/no/such/slice"), HasSubstr("TORUS_SLICE")));
  EXPECT_TRUE(Slice::Read({.default_file = "/no/such/slice"}));
}

TEST(Slice, AnUnknownTypeIsToldWhatIsValid) {
  const auto near = Slice::Read({.accelerator_type = "v2-9"});
  ASSERT_FALSE(near);
  EXPECT_EQ(near.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(near.error().message(), AllOf(HasSubstr("TPU_ACCELERATOR_TYPE"), HasSubstr("'v2-9'"),
                                            HasSubstr("v2-8, v2-32")));
  const auto far = Slice::Read({.accelerator_type = "gpu"});
  ASSERT_FALSE(far);
  EXPECT_THAT(far.error().message(), AllOf(HasSubstr("v4-8"), HasSubstr("v6e-1")));
}

TEST(Slice, ShowsTheChipsThatTheEnvironmentNames) {
  SliceSource source{.accelerator_type = "v2-8", .visible_chips = "3,1"};
  auto slice = Slice::Read(source);
  ASSERT_TRUE(slice) << slice.error().ToString();
  EXPECT_THAT(slice->chips(), ElementsAre(1, 3));
  EXPECT_THAT(slice->cores(), ElementsAre(2, 3, 6, 7));
  EXPECT_EQ(slice->devices().size(), 4u);
  EXPECT_THAT(slice->devices().back().coords, ElementsAre(1, 0, 0));
  source.process_bounds = "1,2,1";
  EXPECT_THAT(Slice::Read(source)->devices().back().coords, ElementsAre(0, 1, 0));
  source.process_bounds = "2,2,1";
  EXPECT_THAT(Slice::Read(source).error().message(), HasSubstr("TPU_CHIPS_PER_PROCESS_BOUNDS"));
  for (const char* wrong : {"4", "0,0", "a", "0,", "-1"}) {
    const auto refused = Slice::Read({.accelerator_type = "v2-8", .visible_chips = wrong});
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().message(), HasSubstr("from 0 to 3"));
  }
}

TEST(Slice, IsOneProcessForWhoKnowsNoOther) {
  SliceSource source{.accelerator_type = "v5litepod-8", .processes = "1,1,1"};
  EXPECT_TRUE(Slice::Read(source));
  source.processes = "2,4,1";
  const auto many = Slice::Read(source);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code(), Code::kUnimplemented);
  EXPECT_THAT(many.error().message(),
              HasSubstr("Set TPU_PROCESS_BOUNDS=1,1,1 TPU_CHIPS_PER_PROCESS_BOUNDS=2,4,1 "
                        "TPU_VISIBLE_CHIPS=0,1,2,3,4,5,6,7"));
  for (const char* wrong : {"a", "", "0,1,1", "1,1,"}) {
    source.processes = wrong;
    EXPECT_EQ(Slice::Read(source).error().code(), Code::kInvalidArgument) << wrong;
  }
}

// As PyTorch/XLA's launch sets them for its third process.
SliceSource ThirdOfFour() {
  return {.accelerator_type = "v2-8",
          .visible_chips = "2",
          .process_bounds = "1,1,1",
          .processes = "2,2,1",
          .task = "2",
          .addresses = "localhost:8476,localhost:8477,localhost:8478,localhost:8479",
          .can_be_one_of_several = true};
}

TEST(Slice, IsSharedOutAmongProcesses) {
  const auto slice = Slice::Read(ThirdOfFour());
  ASSERT_TRUE(slice) << slice.error().ToString();
  EXPECT_EQ(slice->processes().count, 4);
  EXPECT_EQ(slice->processes().own, 2);
  EXPECT_EQ(slice->processes().address, "localhost:8476");
  EXPECT_THAT(slice->chips(), ElementsAre(2));
  ASSERT_EQ(slice->devices().size(), 8);
  for (const auto& device : slice->devices()) EXPECT_EQ(device.process, device.id / 2);
  EXPECT_TRUE(slice->owns(slice->devices()[5]));
  EXPECT_FALSE(slice->owns(slice->devices()[6]));
  EXPECT_EQ(slice->devices()[5].debug_string, "TPU_5(process=2,(0,1,0,1))");
}

TEST(Slice, AProcessMayHaveABlockOfChips) {
  SliceSource source = ThirdOfFour();
  source.accelerator_type = "v5litepod-8";
  source.process_bounds = "2,2,1";
  source.processes = "1,2,1";
  source.task = "1";
  source.visible_chips = std::nullopt;
  const auto slice = Slice::Read(source);
  ASSERT_TRUE(slice) << slice.error().ToString();
  EXPECT_THAT(slice->chips(), ElementsAre(4, 5, 6, 7));
}

// As PyTorch/XLA's launch sets them for the fourth process on TPU7x.
SliceSource FourthOfEight() {
  return {.accelerator_type = "tpu7x-8",
          .visible_chips = "3",
          .process_bounds = "1,1,1",
          .processes = "2,2,1,2",
          .task = "3",
          .can_be_one_of_several = true};
}

TEST(Slice, ACoreThatIsAFunctionOfItsOwnMayBeAProcesss) {
  SliceSource source = FourthOfEight();
  const auto slice = Slice::Read(source);
  ASSERT_TRUE(slice) << slice.error().ToString();
  EXPECT_EQ(slice->processes().count, 8);
  for (const auto& device : slice->devices()) EXPECT_EQ(device.process, device.id);
  EXPECT_THAT(slice->chips(), ElementsAre(1));
  EXPECT_THAT(slice->cores(), ElementsAre(3));
  source.visible_chips = "1";
  EXPECT_THAT(Slice::Read(source).error().message(),
              HasSubstr("process 3 of 8 has the cores 3 of the slice"));
  source.visible_chips = std::nullopt;
  source.processes = "2,2,1";  // a process a chip
  EXPECT_THAT(Slice::Read(source)->cores(), ElementsAre(6, 7));
  source.processes = "2,2,1,3";
  EXPECT_THAT(Slice::Read(source).error().message(),
              HasSubstr("the slice's 2x2x1; a fourth number of the first may be 2"));
}

TEST(Slice, AChipThatIsOneFunctionIsOneProcesss) {
  SliceSource source = ThirdOfFour();
  source.processes = "2,2,1,2";
  EXPECT_THAT(Slice::Read(source).error().message(), HasSubstr("must be the slice's 2x2."));
  source.processes = "2,2,1,1";
  EXPECT_TRUE(Slice::Read(source));
}

TEST(Slice, SaysWhatIsWrongWithItsProcesses) {
  const auto error = [](auto change) {
    SliceSource source = ThirdOfFour();
    change(source);
    const auto slice = Slice::Read(source);
    EXPECT_FALSE(slice);
    return slice ? std::string() : slice.error().ToString();
  };
  EXPECT_THAT(error([](auto& s) { s.processes = "2,4,1"; }), HasSubstr("must be the slice's 2x2"));
  EXPECT_THAT(error([](auto& s) { s.process_bounds = "2,2,1"; }), HasSubstr("must be the slice's"));
  EXPECT_THAT(error([](auto& s) { s.task = std::nullopt; }),
              HasSubstr("CLOUD_TPU_TASK_ID says ''"));
  EXPECT_THAT(error([](auto& s) { s.task = "4"; }), HasSubstr("from 0 to 3"));
  EXPECT_THAT(error([](auto& s) { s.visible_chips = "0"; }),
              HasSubstr("process 2 of 4 has the chips 2"));
}

TEST(Slice, OfANodeHasALock) {
  const std::string file = ::testing::TempDir() + "/slice_with_uid";
  std::ofstream(file) << slice::Format({.accelerator_type = "v2-8", .node_uid = "abc"});
  EXPECT_EQ(Slice::Read({.description_file = file})->lock_file(), "/tmp/libtpu_lockfile.abc");
  EXPECT_EQ(Slice::Read({.description_file = file, .shared = true})->lock_file(), "");
  EXPECT_EQ(Slice::Read({.accelerator_type = "v2-8"})->lock_file(), "");
}

}  // namespace
}  // namespace torus::tpu
