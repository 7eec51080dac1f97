#include "tpu/tensorflow/runtime/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <thread>
#include <utility>

#include "tpu/tensorflow/runtime/testing.h"

namespace torus::tensorflow {
namespace {

using ::testing::ElementsAre;

using Transfer = TpuTest;

TEST_F(Transfer, BringsBackWhatItTookThere) {
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  std::promise<Status> free_again;
  const auto array = ToDevice(1, {PJRT_Buffer_Type_F32, {2, 3}}, values.data(),
                              [&](Status status) { free_again.set_value(std::move(status)); });
  ASSERT_TRUE(array) << array.error().ToString();
  EXPECT_TRUE(Soon(free_again.get_future()).ok());
  std::array<float, 6> read = {};
  std::promise<Status> done;
  ToHost(*array, read.data(), sizeof(read),
         [&](Status status) { done.set_value(std::move(status)); });
  EXPECT_TRUE(Soon(done.get_future()).ok());
  EXPECT_EQ(read, values);
}

TEST_F(Transfer, RefusesACoreThatIsNotThere) {
  const float value = 1;
  const auto array = ToDevice(99, kOneFloat, &value, [](const Status&) { ADD_FAILURE(); });
  EXPECT_EQ(array.error().code(), Code::kInvalidArgument);
}

TEST_F(Transfer, OfTooFewBytesIsAnErrorOfTheTransfer) {
  std::promise<Status> done;
  float read;
  ToHost(MakeArray(0, 1), &read, 2, [&](Status status) { done.set_value(std::move(status)); });
  EXPECT_EQ(Soon(done.get_future()).code(), Code::kInvalidArgument);
}

TEST_F(Transfer, KeepsTheArrayUntilItIsRead) {
  auto array = std::make_shared<Array>();
  auto read = BeginRead(array);
  Array::Resolve(std::move(array), MakeBuffer(3));
  EXPECT_EQ(Soon(std::move(read)), 3);
}

TEST_F(Transfer, BlocksForTheDimensionsOfAnArrayThatIsToCome) {
  const auto array = std::make_shared<Array>();
  auto dimensions = std::async(std::launch::async, [array] { return WaitForDimensions(array); });
  EXPECT_FALSE(Has(dimensions));
  Array::Resolve(array, MakeBuffer(1));
  EXPECT_THAT(*dimensions.get(), ElementsAre(1));
  const auto failed = std::make_shared<Array>();
  Array::Resolve(failed, Internal("lost"));
  EXPECT_EQ(WaitForDimensions(failed).error().message(), "lost");
}

TEST_F(Transfer, ToTheSameDeviceIsTheSameArray) {
  const auto array = MakeArray(2, 5);
  EXPECT_EQ(CopyTo(2, 2, array), array);
}

TEST_F(Transfer, CopiesToAnotherDeviceWhatIsToCome) {
  const auto array = std::make_shared<Array>();
  const auto copy = CopyTo(1, 0, array);
  auto read = BeginRead(copy);
  EXPECT_FALSE(Has(read));
  Array::Resolve(array, MakeBuffer(5));
  EXPECT_EQ(Soon(std::move(read)), 5);
}

TEST_F(Transfer, OfAnArrayThatFailedHasItsError) {
  const auto array = std::make_shared<Array>();
  const auto copy = CopyTo(1, 0, array);
  Array::Resolve(array, Internal("lost"));
  EXPECT_EQ(Read(copy).error(), Status(Code::kInternal, "lost"));
}

TEST(ArrayShape, HasNoElementsWhereADimensionIsNone) {
  EXPECT_TRUE((ArrayShape{PJRT_Buffer_Type_F32, {}}).HasElements());
  EXPECT_TRUE((ArrayShape{PJRT_Buffer_Type_F32, {2, 3}}).HasElements());
  EXPECT_FALSE((ArrayShape{PJRT_Buffer_Type_F32, {2, 0}}).HasElements());
}

}  // namespace
}  // namespace torus::tensorflow
