// Which compilations are spared, over the fake engine, which counts them.
#include "tpu/device/cached_programs.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tpu/testing/pjrt_user.h"

namespace torus::tpu {
namespace {

using pjrt::MakeArgs;
using ::testing::HasSubstr;

constexpr std::string_view kProgram = "name=f outputs=1 bytes=1024 temp=64";

class CachedPrograms : public ::testing::Test {
 protected:
  CachedPrograms() {
    std::string made = "/tmp/torus-cached-programs-XXXXXX";
    folder_ = mkdtemp(made.data());
  }
  ~CachedPrograms() override { std::filesystem::remove_all(folder_); }

  // A framework in a process of its own, as far as can be told.
  PjrtUser Framework(std::string builds = "torus on engine", std::string type = "v4-8") const {
    return *PjrtUser::Make(
        MakeSoftwareTpu(pjrt::Engine::Open(FAKE_ENGINE),
                        {.version = "1.2.3",
                         .slice_source = [type] { return SliceSource{.accelerator_type = type}; },
                         .host = {"/none", "/none"},
                         .program_cache = {.folder = folder_},
                         .builds = std::move(builds)}));
  }

  // How often the engine compiles meanwhile.
  template <typename Work>
  int Compilations(const Work& work) const {
    static void* const library = dlopen(FAKE_ENGINE, RTLD_NOW);
    static const auto count = reinterpret_cast<int (*)()>(dlsym(library, "FakeEngineCompilations"));
    const int before = count();
    work();
    return count() - before;
  }
  // … when a new framework compiles the program.
  int CompilationsOf(const PjrtUser& user, std::string_view code = kProgram,
                     std::string_view options = {}) const {
    return Compilations([&] {
      const auto program = user.Compile(code, options);
      ASSERT_TRUE(program) << program.error().ToString();
      EXPECT_TRUE(user.Destroy(*program).ok());
    });
  }

  std::string folder_;
};

// What a framework may ask of a program, before it runs.
std::string Describe(const PjrtUser& user, PJRT_LoadedExecutable* loaded) {
  auto get = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = loaded;
  EXPECT_TRUE(
      PjrtUser::Take(user.api(), user.api()->PJRT_LoadedExecutable_GetExecutable(&get)).ok());
  auto name = MakeArgs<PJRT_Executable_Name_Args>();
  auto fingerprint = MakeArgs<PJRT_Executable_Fingerprint_Args>();
  auto memory = MakeArgs<PJRT_Executable_GetCompiledMemoryStats_Args>();
  name.executable = fingerprint.executable = memory.executable = get.executable;
  EXPECT_EQ(user.api()->PJRT_Executable_Name(&name), nullptr);
  EXPECT_EQ(user.api()->PJRT_Executable_Fingerprint(&fingerprint), nullptr);
  EXPECT_EQ(user.api()->PJRT_Executable_GetCompiledMemoryStats(&memory), nullptr);
  const auto text = fmt::format(
      "{} {} {} {}", std::string_view(name.executable_name, name.executable_name_size),
      std::string_view(fingerprint.executable_fingerprint, fingerprint.executable_fingerprint_size),
      memory.output_size_in_bytes, memory.temp_size_in_bytes);
  auto destroy = MakeArgs<PJRT_Executable_Destroy_Args>();
  destroy.executable = get.executable;
  EXPECT_EQ(user.api()->PJRT_Executable_Destroy(&destroy), nullptr);
  return text;
}

TEST_F(CachedPrograms, TheSecondProcessDoesNotCompile) {
  const auto use = [&] {
    const auto user = Framework();
    const auto program = user.Compile(kProgram);
    ASSERT_TRUE(program);
    EXPECT_EQ(Describe(user, *program), "f compiled 1024 64");
    const auto outputs = user.Run(*program, {}, 1);
    ASSERT_TRUE(outputs);
    EXPECT_EQ(user.MemoryStats()->bytes_in_use, 1024);
    EXPECT_EQ(user.MemoryStats()->peak_bytes_in_use, 1024 + 64);
    EXPECT_TRUE(user.Destroy((*outputs)[0]).ok());
    EXPECT_TRUE(user.Destroy(*program).ok());
  };
  EXPECT_EQ(Compilations(use), 1);
  EXPECT_EQ(Compilations(use), 0);
}

std::string Serialize(const PjrtUser& user, PJRT_LoadedExecutable* loaded) {
  auto get = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = loaded;
  EXPECT_EQ(user.api()->PJRT_LoadedExecutable_GetExecutable(&get), nullptr);
  auto args = MakeArgs<PJRT_Executable_Serialize_Args>();
  auto destroy = MakeArgs<PJRT_Executable_Destroy_Args>();
  args.executable = destroy.executable = get.executable;
  EXPECT_EQ(user.api()->PJRT_Executable_Serialize(&args), nullptr);
  EXPECT_EQ(user.api()->PJRT_Executable_Destroy(&destroy), nullptr);  // the bytes are still there
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

PJRT_LoadedExecutable* Load(const PjrtUser& user, const std::string& bytes) {
  auto args = MakeArgs<PJRT_Executable_DeserializeAndLoad_Args>();
  args.client = user.client();
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  EXPECT_EQ(user.api()->PJRT_Executable_DeserializeAndLoad(&args), nullptr);
  return args.loaded_executable;
}

// The engine would serialize what it loaded without its code.
TEST_F(CachedPrograms, WhatWasLoadedIsSerializedAsItCame) {
  const auto serialize = [](const PjrtUser& user) {
    const auto program = user.Compile(kProgram);
    auto bytes = program ? Serialize(user, *program) : "";
    EXPECT_TRUE(user.Destroy(*program).ok());
    return bytes;
  };
  const auto compiled = serialize(Framework());
  const auto user = Framework();
  EXPECT_EQ(Compilations([&] { EXPECT_EQ(serialize(user), compiled); }), 0);
  auto* const loaded = Load(user, compiled);
  EXPECT_EQ(Serialize(user, loaded), compiled);
  EXPECT_TRUE(user.Destroy(loaded).ok());
}

TEST_F(CachedPrograms, AnotherCompilationIsAnother) {
  ASSERT_EQ(CompilationsOf(Framework()), 1);
  EXPECT_EQ(CompilationsOf(Framework(), "name=g outputs=1 bytes=1024 temp=64"), 1);
  EXPECT_EQ(CompilationsOf(Framework(), kProgram, std::string_view("\x1a\x04\x20\x01\x28\x02", 6)),
            1);
  EXPECT_EQ(CompilationsOf(Framework("newer torus on engine")), 1);
  EXPECT_EQ(CompilationsOf(Framework("torus on engine", "v2-8")), 1);
  for (const char* flags :
       {"--xla_cpu_enable_fast_math=true", " --xla_cpu_enable_fast_math=false"}) {
    setenv("XLA_FLAGS", flags, 1);
    EXPECT_EQ(CompilationsOf(Framework()), 1) << flags;
    EXPECT_EQ(CompilationsOf(Framework()), 0) << flags;
  }
  unsetenv("XLA_FLAGS");
  EXPECT_EQ(CompilationsOf(Framework()), 0);
}

TEST_F(CachedPrograms, WhatDoesMoreThanToCompileIsNotKept) {
  for (const char* flags : {"--xla_dump_to=/tmp/x", "/a/file/with/flags", " "}) {
    setenv("XLA_FLAGS", flags, 1);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(CompilationsOf(Framework()), 1) << flags;
  }
  unsetenv("XLA_FLAGS");
  const auto user = Framework();
  setenv("XLA_FLAGS", "--later", 1);  // than the engine read them
  for (int i = 0; i < 2; ++i) EXPECT_EQ(CompilationsOf(user), 1);
  unsetenv("XLA_FLAGS");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(CompilationsOf(Framework("")), 1);  // unknown builds
  for (int i = 0; i < 2; ++i) EXPECT_EQ(CompilationsOf(Framework(), "name=InspectSharding"), 1);
}

TEST_F(CachedPrograms, WhatCannotBeLoadedIsCompiled) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(CompilationsOf(Framework(), "name=f unloadable"), 1);
}

TEST_F(CachedPrograms, AnErrorIsTheSameEachTime) {
  const auto message = [&](std::string_view code) {
    const auto user = Framework();
    const auto program = user.Compile(code);
    return program ? "compiled" : program.error().ToString();
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(message("fail"), HasSubstr("the fake cannot compile it"));
    EXPECT_THAT(message("name=huge outputs=1 bytes=99000000000"), HasSubstr("CompileTimeHbmOom"));
  }
}

}  // namespace
}  // namespace torus::tpu
