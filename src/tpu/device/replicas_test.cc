#include "tpu/device/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::tpu {
namespace {

using ::testing::HasSubstr;

TEST(Gangs, JoinPartsOfOneProgramOnly) {
  Gangs gangs;
  int programs[2] = {};  // whose addresses stand for executables
  const auto* one = reinterpret_cast<PJRT_LoadedExecutable*>(&programs[0]);
  const auto* other = reinterpret_cast<PJRT_LoadedExecutable*>(&programs[1]);
  EXPECT_TRUE(gangs.Join(1, one, 2).ok());
  EXPECT_TRUE(gangs.Join(2, other, 2).ok());  // the same device is ahead
  EXPECT_TRUE(gangs.Join(1, one, 2).ok());
  const Status different = gangs.Join(2, one, 2);
  EXPECT_EQ(different.code(), Code::kUnimplemented);
  EXPECT_THAT(different.message(), HasSubstr("pin_layout=False"));
  EXPECT_TRUE(gangs.Join(1, other, 2).ok());  // the first launch of that number is over
}

}  // namespace
}  // namespace torus::tpu
