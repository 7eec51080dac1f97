// Against a TensorFlow that only says its version, and the adapters beside this test: 2.1's, 2.2's
// which is no library, and 2.3's which is no adapter.
#include "tpu/tensorflow/adapters.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

namespace torus::tensorflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A TensorFlow of the version, in this process for as long as it lives.
class FakeTensorFlow {
 public:
  explicit FakeTensorFlow(const char* version) : library_(dlopen(FAKE_TENSORFLOW, RTLD_NOW)) {
    EXPECT_NE(library_, nullptr) << dlerror();
    setenv("FAKE_TENSORFLOW_VERSION", version, 1);
  }
  ~FakeTensorFlow() {
    if (library_ != nullptr) dlclose(library_);
  }
  FakeTensorFlow(const FakeTensorFlow&) = delete;

 private:
  void* const library_;
};

const PJRT_Api kApi{};

TEST(BindAdapter, SaysThatThereIsNoTensorFlow) {
  const auto status = BindAdapter({}, &kApi);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no TensorFlow is loaded"));
}

TEST(BindAdapter, NamesTheVersionsThatThereAre) {
  const FakeTensorFlow tensorflow("2.0.1-rc0");
  const auto status = BindAdapter({}, &kApi);
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("TensorFlow 2.0.1-rc0 has no TPU here"),
                    HasSubstr("tensorflow/2.0/adapter.so"), HasSubstr("for 2.1, 2.2, 2.3:")));
}

TEST(BindAdapter, SaysWhyAnAdapterDoesNotOpen) {
  {
    const FakeTensorFlow tensorflow("2.2.0");
    const auto status = BindAdapter({}, &kApi);
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("TensorFlow 2.2.0"), HasSubstr("2.2/adapter.so")));
  }
  const FakeTensorFlow tensorflow("2.3.0");
  const auto status = BindAdapter({}, &kApi);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("has no torus_adapter_set_api"));
}

TEST(BindAdapter, PointsToTheFunctionsThatTheAdapterHasAndGivesItTheApi) {
  const FakeTensorFlow tensorflow("2.1.7");
  int missing = 0;
  void *has = nullptr, *lacks = &missing;
  const std::array targets = {Target{"TpuPlatform_New", &has}, Target{"TpuPlatform_Old", &lacks}};
  const auto status = BindAdapter(targets, &kApi);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(lacks, &missing);
  ASSERT_NE(has, nullptr);
  EXPECT_EQ(reinterpret_cast<const PJRT_Api* (*)()>(has)(), &kApi);
}

}  // namespace
}  // namespace torus::tensorflow
