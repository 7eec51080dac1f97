#include "service/backend/local/image_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/subprocess.h"
#include "service/backend/local/base_images.h"

namespace torus::backend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

TEST(ImageRecipe, ATensorFlowComesWithItsWorker) {
  const ImageRecipe base = TpuVmRecipe({});
  EXPECT_THAT(base.python, IsEmpty());
  EXPECT_EQ(TpuVmRecipe({}, "2.11.0").Digest(), base.Digest());  // no wheel for the image's Python

  const ImageRecipe stock = TpuVmRecipe({}, "2.13.0");
  ASSERT_EQ(stock.python.size(), 2);
  EXPECT_EQ(stock.python[0].requirements, "tensorflow==2.13.0\n");
  EXPECT_EQ(stock.python[1].environment, "/opt/tensorflow-worker");
  EXPECT_THAT(stock.python[1].requirements, HasSubstr("tensorflow-tpu==2.20.0"));
  EXPECT_TRUE(stock.python[1].locked);
  EXPECT_THAT(Find(stock, "/etc/environment")->content, HasSubstr("grpc://127.0.0.1:8470"));

  const ImageRecipe own = TpuVmRecipe({}, "2.20.0");
  EXPECT_THAT(own.python[0].requirements, HasSubstr("tensorflow-tpu==2.20.0"));
  EXPECT_THAT(Find(own, "/etc/environment")->content, HasSubstr("TPU_NAME=\"local\""));
  EXPECT_NE(own.Digest(), stock.Digest());
}

TEST(BaseImages, VersionsOfOneTensorFlowShareAnImage) {
  const BaseImages images("/nowhere", {}, [] {});
  EXPECT_EQ(images.DigestFor("2.13.0"), images.DigestFor("tpu-vm-tf-2.13.0-pod"));
  EXPECT_NE(images.DigestFor("2.13.0"), images.DigestFor("2.13.1"));
  EXPECT_EQ(images.DigestFor("tpu-vm-base"), images.DigestFor("v2-alpha"));
  EXPECT_EQ(images.DigestFor("tpu-vm-base"), images.DigestFor("an operator's own"));
  EXPECT_NE(images.DigestFor("tpu-vm-base"), images.DigestFor("2.13.0"));
}

TEST(ImageStore, TellsWhatPipLacked) {
  const Status lost = Internal("No matching distribution found for tensorflow==2.13.0");
  EXPECT_EQ(internal::PipError(lost, "tensorflow==2.13.0\n").code(), Code::kUnavailable);
  EXPECT_THAT(internal::PipError(Internal("odd"), "a==1 \\\n").message(),
              HasSubstr("install a==1:"));
  EXPECT_EQ(internal::PipError(ResourceExhausted("full"), "a").code(), Code::kResourceExhausted);
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

// Stands in for mmdebstrap: mounts as it does, starts a child of its own session, and hangs.
constexpr char kHangs[] = R"sh(#!/bin/sh
for root; do :; done
mkdir -p "$root/proc" "$root/sys" "$root/dev"
mount -t proc proc "$root/proc"
mount -o rbind /sys "$root/sys"
setsid sleep 98765 &
echo 'I: hanging...' >&2
sleep 98765
)sh";

class ImageStoreStopTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "a base image is made as root";
    char name[] = "/tmp/torus-image-test-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = std::getenv("PATH");
    setenv("PATH", (folder_ + "/bin:" + path_).c_str(), 1);
    ASSERT_TRUE(MakeFolders(folder_ + "/bin").ok());
    ASSERT_TRUE(WriteFile(folder_ + "/bin/mmdebstrap", kHangs, {.mode = 0755}).ok());
  }
  void TearDown() override {
    if (folder_.empty()) return;
    setenv("PATH", path_.c_str(), 1);
    EXPECT_TRUE(RemoveTree(folder_).ok());
  }
  std::string folder_, path_;
};

TEST_F(ImageStoreStopTest, AStopEndsAllAtOnce) {
  ImageStore store(folder_ + "/images");
  const ImageRecipe recipe = TpuVmRecipe({});
  std::stop_source source;
  std::chrono::steady_clock::time_point stopped;
  const auto image = store.Ensure(
      recipe,
      [&](const std::string& line) {
        if (line.find("hanging") == std::string::npos) return;
        stopped = std::chrono::steady_clock::now();
        source.request_stop();
      },
      source.get_token());
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code(), Code::kCancelled) << image.error().ToString();
  EXPECT_LT(std::chrono::steady_clock::now() - stopped, std::chrono::seconds(1));
  EXPECT_EQ(ReadFile("/proc/self/mountinfo")->find(folder_), std::string::npos);
  const auto alive = RunSubprocess({"pgrep", "-f", "sleep 98765", "-r", "D,I,R,S,T"});
  EXPECT_EQ(alive->output, "");
  EXPECT_FALSE(store.Has(recipe.Digest()));
  EXPECT_TRUE(store.RemoveLeftovers().ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/images"))
    EXPECT_EQ(entry.path().filename(), "lock");
  EXPECT_TRUE(std::filesystem::exists("/sys/kernel")) << "the host's own";
}

TEST_F(ImageStoreStopTest, AStopEndsTheWaitForAnothersImage) {
  ASSERT_TRUE(MakeFolders(folder_ + "/images").ok());
  const int lock = open((folder_ + "/images/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  ImageStore store(folder_ + "/images");
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    source.request_stop();
  });
  const auto image = store.Ensure(TpuVmRecipe({}), {}, source.get_token());
  close(lock);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code(), Code::kCancelled);
}

TEST_F(ImageStoreStopTest, LeftoversAreRemovedAndWhatIsMountedInThemIsNot) {
  const std::string root = folder_ + "/images/making-1234-1/rootfs";
  ASSERT_TRUE(MakeFolders(root + "/data").ok());
  ASSERT_TRUE(MakeFolders(folder_ + "/mine").ok());
  ASSERT_TRUE(WriteFile(folder_ + "/mine/file", "x").ok());
  ASSERT_EQ(mount((folder_ + "/mine").c_str(), (root + "/data").c_str(), "", MS_BIND, ""), 0);
  ImageStore store(folder_ + "/images");
  EXPECT_TRUE(store.RemoveLeftovers().ok());
  EXPECT_FALSE(std::filesystem::exists(root));
  EXPECT_EQ(*ReadFile(folder_ + "/mine/file"), "x");
}

}  // namespace
}  // namespace torus::backend
