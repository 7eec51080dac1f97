#include "service/backend/local/image_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace torus::backend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const ImageFile* Find(const ImageRecipe& recipe, std::string_view path) {
  for (const ImageFile& file : recipe.files)
    if (file.path == path) return &file;
  return nullptr;
}

TEST(ImageRecipe, ItsDigestFollowsEveryPart) {
  const ImageRecipe recipe = TpuVmRecipe({});
  EXPECT_EQ(recipe.Digest().size(), 64u);
  EXPECT_EQ(recipe.Digest(), TpuVmRecipe({}).Digest());
  EXPECT_NE(recipe.Digest(), TpuVmRecipe({.ca_bundle = "x"}).Digest());
  EXPECT_NE(recipe.Digest(), TpuVmRecipe({.apt_sources = {"deb x bookworm main"}}).Digest());
  EXPECT_NE(recipe.Digest(), TpuVmRecipe({.pip = {{"index-url", "http://x"}}}).Digest());
}

TEST(ImageRecipe, EveryDoorIntoAVmHasTheVariables) {
  const ImageRecipe recipe = TpuVmRecipe({.environment = {{"http_proxy", "http://p.example:1"}}});
  for (const char* path :
       {"/etc/ssh/sshd_config.d/10-torus.conf", "/etc/environment", "/etc/profile.d/torus.sh"}) {
    ASSERT_TRUE(Find(recipe, path)) << path;
    EXPECT_THAT(Find(recipe, path)->content, HasSubstr("/opt/torus/libtpu.so"));
    EXPECT_THAT(Find(recipe, path)->content, HasSubstr("http://p.example:1"));
  }
  EXPECT_THAT(Find(recipe, "/etc/sudoers.d/10-torus")->content, HasSubstr("TPU_LIBRARY_PATH"));
  EXPECT_THAT(Find(recipe, "/etc/pip.conf")->content, Not(HasSubstr("cert")));
}

TEST(ImageStore, TellsWhyMmdebstrapFailed) {
  const Status failed(Code::kInternal, "mmdebstrap failed");
  EXPECT_EQ(internal::ImageError(failed, "dpkg: No space left on device").code(),
            Code::kResourceExhausted);
  EXPECT_EQ(internal::ImageError(failed, "Temporary failure resolving 'x'").code(),
            Code::kUnavailable);
  EXPECT_THAT(internal::ImageError(Status(Code::kNotFound, "x"), "").message(),
              HasSubstr("apt-get install mmdebstrap"));
  EXPECT_THAT(internal::ImageError(failed, "E: odd").message(), HasSubstr("E: odd"));
}

TEST(ImageStore, TrustsOnlyWhatIsMissingBesides) {
  const auto pem = [](std::string_view body) {
    return fmt::format("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", body);
  };
  EXPECT_THAT(internal::MissingCertificates(pem("A") + pem("B") + pem("B"), pem("A")),
              ElementsAre(pem("B")));
}

TEST(ImageStore, RemovesWhatACrashLeft) {
  char name[] = "/tmp/torus-image-test-XXXXXX";
  const std::string folder = mkdtemp(name);
  ASSERT_TRUE(MakeFolders(folder + "/making-1234-1/rootfs").ok());
  ASSERT_TRUE(MakeFolders(folder + "/abcd/rootfs").ok());
  ImageStore store(folder);
  EXPECT_TRUE(store.RemoveLeftovers().ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/making-1234-1"));
  EXPECT_TRUE(store.Has("abcd"));
  EXPECT_FALSE(store.Has("ef"));
  EXPECT_TRUE(RemoveTree(folder).ok());
}

}  // namespace
}  // namespace torus::backend
