// Frameworks by their libraries, and who is refused.
#include "tpu/device/framework.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace torus::tpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Framework, IsKnownByItsLibrary) {
  EXPECT_EQ(FrameworkOf("/venv/site-packages/_XLAC.cpython-311-x86_64-linux-gnu.so"),
            "PyTorch/XLA");
  EXPECT_EQ(FrameworkOf("/venv/site-packages/jaxlib/libjax_common.so"), "JAX");
  EXPECT_EQ(FrameworkOf("/home/jaxlib/work/own.so"), "own.so");
  EXPECT_THAT(LibraryAt(reinterpret_cast<const void*>(&FrameworkOf)), HasSubstr("device_test"));
}

TEST(Framework, OneAtATimeHasAChip) {
  const int client = 0;
  const ChipsUse torch{"/lock", {0, 1}, "/x/_XLAC.so"};
  EXPECT_TRUE(CheckFramework(torch).ok());
  NoteFramework(&client, torch);
  EXPECT_TRUE(CheckFramework(torch).ok());  // another client of the same
  EXPECT_TRUE(CheckFramework({"/lock", {2}, "/x/jaxlib/a.so"}).ok());
  EXPECT_TRUE(CheckFramework({"/other", {0}, "/x/jaxlib/a.so"}).ok());
  const Status refused = CheckFramework({"/lock", {1, 2}, "/x/jaxlib/a.so"});
  EXPECT_EQ(refused.code(), Code::kAborted);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("already in use by PyTorch/XLA in this process"),
                                       HasSubstr("/x/_XLAC.so"), HasSubstr("JAX cannot")));
  ForgetFramework(&client);
  EXPECT_TRUE(CheckFramework({"/lock", {1, 2}, "/x/jaxlib/a.so"}).ok());
}

}  // namespace
}  // namespace torus::tpu
