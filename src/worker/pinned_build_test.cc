// What a VM's folder gets of a build.
#include "worker/pinned_build.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace torus::worker {
namespace {

namespace fs = std::filesystem;

class PinBuildTest : public ::testing::Test {
 protected:
  PinBuildTest() {
    std::string made = "/tmp/torus-pinned-build-XXXXXX";
    root_ = mkdtemp(made.data());
    fs::create_directories(root_ / "build");
    for (const char* name : {"libtpu.so", "engine.so", "torus-verify"}) Write(name, "first");
  }
  ~PinBuildTest() override { fs::remove_all(root_); }

  void Write(const std::string& name, std::string_view text) {
    fs::remove(root_ / "build" / name);  // an upgrade makes a new file
    std::ofstream(root_ / "build" / name) << text;
    chmod((root_ / "build" / name).c_str(), 0755);
  }
  Status Pin(const fs::path& libtpu = "build/libtpu.so") {
    return PinBuild(root_ / "vm", root_ / libtpu, root_ / "build/engine.so");
  }
  std::string Pinned(const std::string& name) const {
    std::ifstream file(root_ / "vm" / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path root_;
};

TEST_F(PinBuildTest, AnUpgradeChangesNoVm) {
  ASSERT_TRUE(Pin().ok());
  for (const char* name : {"libtpu.so", "engine.so", "torus-verify"}) Write(name, "second");
  ASSERT_TRUE(Pin().ok());
  for (const char* name : {"libtpu.so", "engine/xla_cpu.so", "torus-verify"}) {
    EXPECT_EQ(Pinned(name), "first") << name;
  }
}

TEST_F(PinBuildTest, VerifyIsOfTheBuildOfItsLibrary) {
  fs::remove(root_ / "build/torus-verify");
  ASSERT_TRUE(Pin().ok()) << "a build without it will do";
  Write("torus-verify", "of another build");
  ASSERT_TRUE(Pin().ok());
  EXPECT_FALSE(fs::exists(root_ / "vm/torus-verify"));
}

TEST_F(PinBuildTest, EachTensorflowsAdapterComesToo) {
  for (const char* name : {"tensorflow/2.19/adapter.so", "tensorflow/2.20/adapter.so"}) {
    fs::create_directories((root_ / "build" / name).parent_path());
    Write(name, "first");
  }
  fs::create_directories(root_ / "build/tensorflow/2.21");
  ASSERT_TRUE(Pin().ok());
  EXPECT_EQ(Pinned("tensorflow/2.19/adapter.so"), "first");
  EXPECT_EQ(Pinned("tensorflow/2.20/adapter.so"), "first");
  EXPECT_FALSE(fs::exists(root_ / "vm/tensorflow/2.21"));
}

TEST_F(PinBuildTest, ThePythonPackageComesToo) {
  fs::create_directories(root_ / "build/python/torus_tpu");
  Write("python/torus_tpu/__init__.py", "first");
  ASSERT_TRUE(Pin().ok());
  EXPECT_EQ(Pinned("python/torus_tpu/__init__.py"), "first");
}

TEST_F(PinBuildTest, VerifyLiesBesideTheFileThatALinkLeadsTo) {
  fs::create_symlink(root_ / "build/libtpu.so", root_ / "link.so");
  ASSERT_TRUE(Pin("link.so").ok());
  EXPECT_EQ(Pinned("torus-verify"), "first");
}

TEST_F(PinBuildTest, WhatOthersMayNotReadIsCopied) {
  chmod((root_ / "build/torus-verify").c_str(), 0700);
  ASSERT_TRUE(Pin().ok());
  EXPECT_EQ(Pinned("torus-verify"), "first");
  struct stat status {};
  ASSERT_EQ(stat((root_ / "vm/torus-verify").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0755u);
}

TEST_F(PinBuildTest, SaysWhatIsMissing) {
  fs::remove(root_ / "build/libtpu.so");
  const Status status = Pin();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("build/libtpu.so"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace torus::worker
