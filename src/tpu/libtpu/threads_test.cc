// Every room of libtpu.so with many threads in it at once: host callbacks, the program cache, the
// profiler, replicas, verification.
//
// Run twice (CMakeLists.txt): on the engine, which shows that what is asked here is what an engine
// does; and on the fake one, which sanitizers can look into. Each program is there in two forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tpu/pjrt/engine.h"
#include "tpu/pjrt/profiler.h"
#include "tpu/program/testing.h"
#include "tpu/testing/pjrt_user.h"

namespace torus::tpu {
namespace {

using pjrt::MakeArgs;
using program::ArrayShape;
using program::ElementType;
using program::HloShape;
using program::ModuleBuilder;
using program::TokenShape;
using program::TupleShape;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// CompileOptionsProto{executable_build_options{num_replicas: 4 num_partitions: 1}}.
constexpr std::string_view kFourReplicas("\x1a\x04\x20\x04\x28\x01", 6);
constexpr int kDevices = 4;  // of the v4-8 that is there where nothing is said
constexpr int kThreads = 4;

bool OnFake() {
  const char* plugin = std::getenv("TORUS_API_TEST");  // NOLINT(concurrency-mt-unsafe)
  return plugin != nullptr && std::string_view(plugin) == "fake";
}

bool is_open = false;

// The library, its cache in a folder of this process. Never closed.
const PJRT_Api* Libtpu() {
  static const PJRT_Api* const api = [] {
    is_open = true;
    std::string cache = "/tmp/torus-threads-test-XXXXXX";
    setenv("TORUS_PROGRAM_CACHE", mkdtemp(cache.data()), 1);
    if (OnFake()) setenv("TORUS_ENGINE", NEW_ENGINE, 1);
    static const auto& folder = *new std::string(cache);
    std::atexit([] { std::filesystem::remove_all(folder); });
    return *pjrt::Engine::Open(LIBTPU);
  }();
  return api;
}

PjrtUser NewUser(std::string_view framework = {}) {
  return *PjrtUser::Make(Libtpu(), 0, framework);
}

// ---- Programs

struct Source {
  std::string mlir, hlo;

  Result<PJRT_LoadedExecutable*> Compile(const PjrtUser& user) const {
    return OnFake() ? user.Compile(hlo, kFourReplicas, "hlo") : user.Compile(mlir, kFourReplicas);
  }
};

// The text with `value` wherever it has `word`.
std::string With(std::string text, std::string_view word, std::string_view value) {
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; at += value.size()) {
    text.replace(at, word.size(), value);
  }
  return text;
}

HloShape Pair() { return ArrayShape(ElementType::kF32, {2}); }

constexpr int64_t kSendChannel = 2, kRecvChannel = 3;

// Sends its argument to the host and returns the `size` numbers that come back.
Source AskTheHost(const std::string& name, int64_t size = 2) {
  constexpr protozero::pbf_tag_type kIsHostTransfer = 47;
  const auto started = [](const HloShape& data) {
    return TupleShape({data, ArrayShape(ElementType::kU32, {}), TokenShape()});
  };
  const auto answer = ArrayShape(ElementType::kF32, {size});
  ModuleBuilder m;
  const int64_t x = m.Add("parameter", Pair());
  const int64_t token = m.Add("after-all", TokenShape());
  const int64_t send = m.Add("send", started(Pair()), {x, token});
  const int64_t sent = m.Add("send-done", TokenShape(), {send});
  const int64_t recv = m.Add("recv", started(answer), {sent});
  const int64_t received = m.Add("recv-done", TupleShape({answer, TokenShape()}), {recv});
  m.Add("get-tuple-element", answer, {received});
  for (const int64_t transfer : {send, sent, recv, received}) {
    m[transfer].channel_id = transfer <= sent ? kSendChannel : kRecvChannel;
    m.Others(transfer).add_bool(kIsHostTransfer, true);
  }
  auto module = m.Build();
  module.name = name;
  const auto mlir = R"(
module @NAME {
  func.func public @main(%x: tensor<2xf32>) -> tensor<SIZExf32> {
    %token = stablehlo.create_token : !stablehlo.token
    %sent = "stablehlo.send"(%x, %token) {
      channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>, is_host_transfer = true
    } : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
    %y:2 = "stablehlo.recv"(%sent) {
      channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>, is_host_transfer = true
    } : (!stablehlo.token) -> (tensor<SIZExf32>, !stablehlo.token)
    return %y#0 : tensor<SIZExf32>
  }
})";
  return {With(With(mlir, "SIZE", std::to_string(size)), "NAME", name), program::WriteHlo(module)};
}

Source Double(const std::string& name) {
  ModuleBuilder m;
  const int64_t x = m.Add("parameter", Pair());
  m.Add("add", Pair(), {x, x});
  auto module = m.Build();
  module.name = name;
  return {"module @" + name + R"( {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %sum = stablehlo.add %x, %x : tensor<2xf32>
    return %sum : tensor<2xf32>
  }
})",
          program::WriteHlo(module)};
}

Source SumOfAll(const std::string& name) {
  const auto number = ArrayShape(ElementType::kF32, {});
  ModuleBuilder m, adder;
  const int64_t x = m.Add("parameter", Pair());
  m[m.Add("all-reduce", Pair(), {x})].called = {2};
  const int64_t a = adder.Add("parameter", number), b = adder.Add("parameter", number);
  adder[b].parameter_number = 1;
  adder.Add("add", number, {a, b});
  auto module = m.Build();
  module.name = name;
  module.computations.push_back(adder.Build().computations[0]);
  module.computations.back().id = 2;
  return {"module @" + name + R"( attributes {mhlo.num_replicas = 4 : i32} {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %sum = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2xf32>) -> tensor<2xf32>
    return %sum : tensor<2xf32>
  }
})",
          program::WriteHlo(module)};
}

// ---- Callbacks of a framework

void FreeFloats(void* data, void*) { delete[] static_cast<float*>(data); }

Status AddChunk(PJRT_CopyToDeviceStream* stream, std::span<const float> values) {
  auto* copy = new float[values.size()];
  std::ranges::copy(values, copy);
  PJRT_Chunk chunk{copy, values.size_bytes(), FreeFloats, nullptr};
  auto args = MakeArgs<PJRT_CopyToDeviceStream_AddChunk_Args>();
  args.stream = stream;
  args.chunk = &chunk;
  TORUS_RETURN_IF_ERROR(
      PjrtUser::Take(Libtpu(), Libtpu()->PJRT_CopyToDeviceStream_AddChunk(&args)));
  auto destroy = MakeArgs<PJRT_Event_Destroy_Args>();
  destroy.event = args.transfer_complete;
  return PjrtUser::Take(Libtpu(), Libtpu()->PJRT_Event_Destroy(&destroy));
}

// Doubles what one device sends it in one run, well or not.
class Callback {
 public:
  enum class Way { kWhole, kInPieces, kTwice, kTooMuch, kTooLittle, kNothing, kRefuses };

  explicit Callback(Way way) : way_(way) {}

  PJRT_SendCallbackInfo send() { return {kSendChannel, this, OnSend}; }
  PJRT_RecvCallbackInfo recv() { return {kRecvChannel, this, OnRecv}; }

 private:
  static PJRT_Error* OnSend(PJRT_Chunk* chunk, PJRT_CallbackError* make_error, size_t, bool,
                            void* self) {
    auto& callback = *static_cast<Callback*>(self);
    callback.values_.resize(chunk->size / sizeof(float));
    std::memcpy(callback.values_.data(), chunk->data, chunk->size);
    chunk->deleter(chunk->data, chunk->deleter_arg);
    for (float& value : callback.values_) value *= 2;
    if (callback.way_ != Way::kRefuses) return nullptr;
    return (*make_error)(PJRT_Error_Code_ABORTED, "not today", 9);
  }

  // The stream is answered by another thread than the one that brings it.
  static void OnRecv(PJRT_CopyToDeviceStream* stream, void* self) {
    auto& callback = *static_cast<Callback*>(self);
    callback.answering_ = std::jthread([&callback, stream] { callback.Answer(stream); });
  }

  void Answer(PJRT_CopyToDeviceStream* stream) const {
    const std::span all(values_);
    switch (way_) {
      case Way::kInPieces:
        for (size_t i = 0; i < all.size(); ++i)
          EXPECT_TRUE(AddChunk(stream, all.subspan(i, 1)).ok());
        break;
      case Way::kTwice:
        EXPECT_TRUE(AddChunk(stream, all).ok());
        EXPECT_TRUE(AddChunk(stream, {}).ok());  // nothing more, which is no harm
        EXPECT_FALSE(AddChunk(stream, all).ok());
        break;
      case Way::kTooMuch:
        EXPECT_FALSE(AddChunk(stream, std::vector<float>(all.size() + 1)).ok());
        break;
      case Way::kTooLittle:
        EXPECT_TRUE(AddChunk(stream, all.first(1)).ok());
        break;
      case Way::kNothing:
        break;
      default:
        EXPECT_TRUE(AddChunk(stream, all).ok());
    }
    auto destroy = MakeArgs<PJRT_CopyToDeviceStream_Destroy_Args>();
    destroy.stream = stream;
    EXPECT_TRUE(PjrtUser::Take(Libtpu(), Libtpu()->PJRT_CopyToDeviceStream_Destroy(&destroy)).ok());
  }

  const Way way_;
  std::vector<float> values_;
  std::jthread answering_;
};

// One run on all four devices, with callbacks or without. Each device has arguments of its own.
class InFlight {
 public:
  InFlight(const PjrtUser& user, PJRT_LoadedExecutable* program, float first, bool wants_events)
      : user_(user), program_(program), wants_events_(wants_events) {
    for (int device = 0; device < kDevices; ++device) {
      arguments_[device] = *user.FromHost({first, static_cast<float>(device)}, device);
    }
  }
  InFlight(const InFlight&) = delete;
  ~InFlight() {
    for (PJRT_Buffer* buffer : arguments_) EXPECT_TRUE(user_.Destroy(buffer).ok());
    for (PJRT_Buffer* buffer : outputs_) {
      if (buffer == nullptr) continue;  // the run did not start
      EXPECT_TRUE(user_.Destroy(buffer).ok());
    }
  }

  Status Start(std::optional<Callback::Way> way = std::nullopt) {
    auto options = MakeArgs<PJRT_ExecuteOptions>();
    // The lists are the caller's own again when Execute returns.
    std::vector<PJRT_SendCallbackInfo> sends(kDevices);
    std::vector<PJRT_RecvCallbackInfo> recvs(kDevices);
    std::vector<PJRT_SendCallbackInfo*> send_lists;
    std::vector<PJRT_RecvCallbackInfo*> recv_lists;
    for (int device = 0; way && device < kDevices; ++device) {
      callbacks_.push_back(std::make_unique<Callback>(*way));
      sends[device] = callbacks_.back()->send();
      recvs[device] = callbacks_.back()->recv();
      send_lists.push_back(&sends[device]);
      recv_lists.push_back(&recvs[device]);
    }
    options.send_callbacks = send_lists.data();
    options.recv_callbacks = recv_lists.data();
    options.num_send_ops = options.num_recv_ops = way ? 1 : 0;
    return Execute(options);
  }

  // What each device returns, or the first error.
  Result<std::vector<std::vector<float>>> Await() {
    std::vector<std::vector<float>> all;
    Status first;
    for (PJRT_Buffer* output : outputs_) {
      auto values = user_.ToHost(output);
      if (values) {
        all.push_back(*std::move(values));
      } else if (first.ok()) {
        first = values.error();
      }
    }
    for (PJRT_Event* event : events_) {
      if (event == nullptr) continue;
      auto await = MakeArgs<PJRT_Event_Await_Args>();
      auto destroy = MakeArgs<PJRT_Event_Destroy_Args>();
      await.event = destroy.event = event;
      PjrtUser::Take(user_.api(), user_.api()->PJRT_Event_Await(&await)).ok();
      EXPECT_TRUE(PjrtUser::Take(user_.api(), user_.api()->PJRT_Event_Destroy(&destroy)).ok());
    }
    return first.ok() ? Result<std::vector<std::vector<float>>>(all) : Error(first);
  }

 private:
  Status Execute(PJRT_ExecuteOptions& options) {
    PJRT_Buffer* const* argument_lists[kDevices];
    PJRT_Buffer** output_lists[kDevices];
    for (int device = 0; device < kDevices; ++device) {
      argument_lists[device] = &arguments_[device];
      output_lists[device] = &outputs_[device];
    }
    auto args = MakeArgs<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = program_;
    args.options = &options;
    args.argument_lists = argument_lists;
    args.num_devices = kDevices;
    args.num_args = 1;
    args.output_lists = output_lists;
    if (wants_events_) args.device_complete_events = events_;
    return PjrtUser::Take(user_.api(), user_.api()->PJRT_LoadedExecutable_Execute(&args));
  }

  const PjrtUser& user_;
  PJRT_LoadedExecutable* const program_;
  const bool wants_events_;
  PJRT_Buffer* arguments_[kDevices] = {};
  PJRT_Buffer* outputs_[kDevices] = {};
  PJRT_Event* events_[kDevices] = {};
  std::vector<std::unique_ptr<Callback>> callbacks_;
};

void ExpectDoubled(InFlight& run, float first) {
  const auto results = run.Await();
  ASSERT_TRUE(results) << results.error().ToString();
  EXPECT_THAT(*results, ElementsAre(ElementsAre(2 * first, 0), ElementsAre(2 * first, 2),
                                    ElementsAre(2 * first, 4), ElementsAre(2 * first, 6)));
}

// Calls `work(thread)` in many threads, which begin together.
template <typename Work>
void InThreads(const Work& work, int count = kThreads) {
  std::latch begin(count);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < count; ++thread) {
    threads.emplace_back([&, thread] {
      begin.arrive_and_wait();
      work(thread);
    });
  }
}

// ---- Host callbacks

// Starts runs one after the other, and awaits them only then.
void RunManyAtOnce(const PjrtUser& user, PJRT_LoadedExecutable* program, int thread) {
  constexpr int kRuns = 6;
  using enum Callback::Way;
  std::vector<std::unique_ptr<InFlight>> runs;
  const auto first = [thread](int i) { return static_cast<float>(100 * thread + i); };
  for (int i = 0; i < kRuns; ++i) {
    runs.push_back(std::make_unique<InFlight>(user, program, first(i), i % 2 == 0));
    const Status started = runs.back()->Start(i % 3 == 0 ? kInPieces : kWhole);
    ASSERT_TRUE(started.ok()) << started.ToString();
  }
  for (int i = 0; i < kRuns; ++i) ExpectDoubled(*runs[i], first(i));
}

TEST(HostCallbacks, OfSeveralDevicesWithManyRunsInFlight) {
  const auto user = NewUser();
  const auto shared = AskTheHost("shared").Compile(user);
  ASSERT_TRUE(shared) << shared.error().ToString();
  InThreads([&](int thread) {
    const auto own = AskTheHost(fmt::format("own_{}", thread)).Compile(user);
    ASSERT_TRUE(own) << own.error().ToString();
    for (int round = 0; round < 3; ++round) {
      RunManyAtOnce(user, *shared, thread);
      RunManyAtOnce(user, *own, thread);
    }
    EXPECT_TRUE(user.Destroy(*own).ok());
  });
  EXPECT_TRUE(user.Destroy(*shared).ok());
  for (int device = 0; device < kDevices; ++device) {
    EXPECT_EQ(user.MemoryStats(device)->bytes_in_use, 0);
  }
}

// The outcome of runs whose callbacks answer so.
Status Outcome(const PjrtUser& user, PJRT_LoadedExecutable* program,
               std::optional<Callback::Way> way) {
  InFlight run(user, program, 1, true);
  const Status started = run.Start(way);
  if (!started.ok()) return started;
  const auto results = run.Await();
  return results ? Status() : results.error();
}

TEST(HostCallbacks, ThatAnswerWronglyFailTheirRun) {
  const auto user = NewUser();
  const auto program = AskTheHost("wrong").Compile(user);
  ASSERT_TRUE(program) << program.error().ToString();
  InThreads([&](int) {
    using enum Callback::Way;
    EXPECT_THAT(Outcome(user, *program, kTooLittle).message(), HasSubstr("ended after 4 of"));
    EXPECT_THAT(Outcome(user, *program, kTooMuch).message(), HasSubstr("ended after 0 of"));
    EXPECT_THAT(Outcome(user, *program, kRefuses).message(), HasSubstr("not today"));
    EXPECT_THAT(Outcome(user, *program, std::nullopt).message(), HasSubstr("was given none"));
    EXPECT_EQ(Outcome(user, *program, kTwice).ToString(), "OK");
    EXPECT_EQ(Outcome(user, *program, kWhole).ToString(), "OK");
  });
  EXPECT_TRUE(user.Destroy(*program).ok());
}

TEST(HostCallbacks, MayHaveNothingToSay) {
  const auto user = NewUser();
  const auto program = AskTheHost("nothing", 0).Compile(user);
  ASSERT_TRUE(program) << program.error().ToString();
  InThreads(
      [&](int) { EXPECT_EQ(Outcome(user, *program, Callback::Way::kNothing).ToString(), "OK"); });
  EXPECT_TRUE(user.Destroy(*program).ok());
}

TEST(HostCallbacks, OutliveTheirProgram) {
  const auto user = NewUser();
  InThreads([&](int thread) {
    const auto source = AskTheHost(fmt::format("short_{}", thread));
    for (int round = 0; round < 5; ++round) {
      const auto program = source.Compile(user);
      ASSERT_TRUE(program) << program.error().ToString();
      InFlight run(user, *program, 3, false);
      ASSERT_TRUE(run.Start(Callback::Way::kWhole).ok());
      EXPECT_TRUE(user.Destroy(*program).ok());
      ExpectDoubled(run, 3);
    }
  });
}

// ---- The program cache

TEST(ProgramCache, IsSharedByClientsAndThreads) {
  InThreads([&](int thread) {
    const auto user = NewUser();
    for (int round = 0; round < 8; ++round) {
      const auto source = Double(fmt::format("cached_{}", (thread + round) % 5));
      const auto program = source.Compile(user);
      ASSERT_TRUE(program) << program.error().ToString();
      InFlight run(user, *program, 5, false);
      ASSERT_TRUE(run.Start().ok());
      ExpectDoubled(run, 5);
      EXPECT_TRUE(user.Destroy(*program).ok());
    }
  });
}

// ---- The profiler

// What a session of the profiler collects while `work` runs.
template <typename Work>
std::string Traced(const Work& work) {
  const auto* extension = pjrt::FindProfilerExtension(Libtpu()->extension_start);
  const pjrt::ProfilerApi& api = *extension->profiler_api;
  pjrt::ProfilerCreateArgs create{sizeof(create), nullptr, 0, nullptr};
  EXPECT_EQ(api.create(&create), nullptr);
  pjrt::ProfilerArgs args{sizeof(args), create.profiler};
  EXPECT_EQ(api.start(&args), nullptr);
  work();
  EXPECT_EQ(api.stop(&args), nullptr);
  pjrt::ProfilerCollectDataArgs collect{sizeof(collect), create.profiler, nullptr, 0};
  EXPECT_EQ(api.collect_data(&collect), nullptr);
  std::string space(reinterpret_cast<const char*>(collect.buffer), collect.buffer_size);
  EXPECT_EQ(api.destroy(&args), nullptr);
  return space;
}

TEST(Profiler, BeginsAndEndsWhileProgramsRun) {
  const auto user = NewUser();
  std::atomic<bool> done = false;
  std::atomic<int> runs = 0;
  std::jthread framework([&] {
    InThreads([&](int thread) {
      const auto asks = AskTheHost(fmt::format("traced_{}", thread % 2)).Compile(user);
      const auto computes = Double(fmt::format("double_{}", thread)).Compile(user);
      ASSERT_TRUE(asks && computes);
      while (!done) {
        InFlight first(user, *asks, 7, false), second(user, *computes, 9, true);
        ASSERT_TRUE(first.Start(Callback::Way::kWhole).ok() && second.Start().ok());
        ExpectDoubled(first, 7);
        ExpectDoubled(second, 9);
        ++runs;
      }
      EXPECT_TRUE(user.Destroy(*asks).ok());
      EXPECT_TRUE(user.Destroy(*computes).ok());
    });
  });
  for (int session = 0; session < 5; ++session) {
    const auto space = Traced([&] {
      const int before = runs;
      while (runs < before + 3 * kThreads && !::testing::Test::HasFailure()) {
        std::this_thread::yield();
      }
    });
    EXPECT_THAT(space, HasSubstr("/device:TPU:3"));
    EXPECT_THAT(space, HasSubstr("double_"));
  }
  done = true;
}

// ---- Replicas, as PyTorch/XLA runs them

// Feeds the program its own output on the device.
Result<std::vector<float>> RunSteps(const PjrtUser& user, PJRT_LoadedExecutable* program,
                                    int device, std::vector<float> values) {
  constexpr int kSteps = 10;
  TORUS_ASSIGN_OR_RETURN(PJRT_Buffer * buffer, user.FromHost(values, device));
  for (int step = 0; step < kSteps; ++step) {
    TORUS_ASSIGN_OR_RETURN(const auto outputs,
                           user.RunOn(user.devices()[device], program, {buffer}, 1));
    TORUS_RETURN_IF_ERROR(user.Destroy(std::exchange(buffer, outputs[0])));
  }
  auto result = user.ToHost(buffer);
  TORUS_RETURN_IF_ERROR(user.Destroy(buffer));
  return result;
}

TEST(Replicas, OfThreadsMeetAndPart) {
  const auto user = NewUser("PyTorch/XLA");
  std::vector<std::vector<float>> sums(kDevices), doubles(kDevices);
  InThreads(
      [&](int device) {
        for (int round = 0; round < 5; ++round) {
          const auto gang = SumOfAll("sum_of_all").Compile(user);  // each its own, of one text
          const auto alone = Double("alone").Compile(user);
          ASSERT_TRUE(gang && alone);
          sums[device] = *RunSteps(user, *gang, device, {static_cast<float>(device), 1});
          doubles[device] = *RunSteps(user, *alone, device, {1, 3});
          EXPECT_TRUE(user.Destroy(*gang).ok());
          EXPECT_TRUE(user.Destroy(*alone).ok());
        }
      },
      kDevices);
  EXPECT_THAT(sums, Each(ElementsAre(6 << 18, 1 << 20)));  // (0+1+2+3) 4^9, 4^10
  EXPECT_THAT(doubles, Each(ElementsAre(1 << 10, 3 << 10)));
}

// The same program, as it comes from a framework's cache.
Result<PJRT_LoadedExecutable*> Reload(const PjrtUser& user, PJRT_LoadedExecutable* loaded) {
  auto get = MakeArgs<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = loaded;
  TORUS_RETURN_IF_ERROR(
      PjrtUser::Take(user.api(), user.api()->PJRT_LoadedExecutable_GetExecutable(&get)));
  auto serialize = MakeArgs<PJRT_Executable_Serialize_Args>();
  auto destroy = MakeArgs<PJRT_Executable_Destroy_Args>();
  serialize.executable = destroy.executable = get.executable;
  TORUS_RETURN_IF_ERROR(
      PjrtUser::Take(user.api(), user.api()->PJRT_Executable_Serialize(&serialize)));
  auto load = MakeArgs<PJRT_Executable_DeserializeAndLoad_Args>();
  load.client = user.client();
  load.serialized_executable = serialize.serialized_bytes;
  load.serialized_executable_size = serialize.serialized_bytes_size;
  const Status status =
      PjrtUser::Take(user.api(), user.api()->PJRT_Executable_DeserializeAndLoad(&load));
  serialize.serialized_executable_deleter(serialize.serialized_executable);
  TORUS_RETURN_IF_ERROR(PjrtUser::Take(user.api(), user.api()->PJRT_Executable_Destroy(&destroy)));
  TORUS_RETURN_IF_ERROR(status);
  return load.loaded_executable;
}

TEST(Replicas, OfLoadedProgramsMeet) {
  const auto user = NewUser("PyTorch/XLA");
  const auto compiled = SumOfAll("loaded_sum").Compile(user);
  ASSERT_TRUE(compiled) << compiled.error().ToString();
  std::vector<std::vector<float>> sums(kDevices);
  InThreads(
      [&](int device) {
        const auto loaded = Reload(user, *compiled);
        ASSERT_TRUE(loaded) << loaded.error().ToString();
        auto sum = RunSteps(user, *loaded, device, {static_cast<float>(device), 1});
        ASSERT_TRUE(sum) << sum.error().ToString();
        sums[device] = *std::move(sum);
        EXPECT_TRUE(user.Destroy(*loaded).ok());
      },
      kDevices);
  EXPECT_TRUE(user.Destroy(*compiled).ok());
  EXPECT_THAT(sums, Each(ElementsAre(6 << 18, 1 << 20)));
}

// ---- Verification, as TORUS_VERIFY_WITH asks for it

// What this process and its children write to stderr, while this lives.
class StderrInFile {
 public:
  StderrInFile() {
    std::fflush(stderr);
    dup2(file_, STDERR_FILENO);
  }
  StderrInFile(const StderrInFile&) = delete;
  ~StderrInFile() {
    dup2(own_, STDERR_FILENO);
    close(own_);
    close(file_);
    unlink(path_.c_str());
  }

  std::string Read() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_ = "/tmp/torus-threads-test-XXXXXX";
  const int file_ = mkstemp(path_.data()), own_ = dup(STDERR_FILENO);
};

size_t Count(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; at += word.size()) ++count;
  return count;
}

TEST(Verify, HearsOfThePrograms) {
  if (!OnFake())
    GTEST_SKIP() << "tests/libtpu/test_verify.py does that with a library that compiles";
  if (is_open) GTEST_SKIP() << "the variable is read once, by a process that other tests have used";
  constexpr int kPrograms = 5;
  setenv("TORUS_VERIFY_WITH", NEW_ENGINE, 1);
  const StderrInFile said;
  const auto user = NewUser();
  InThreads([&](int thread) {
    for (int i = 0; i < kPrograms; ++i) {
      const auto program = Double(fmt::format("verified_{}_{}", thread, i)).Compile(user);
      ASSERT_TRUE(program) << program.error().ToString();
      EXPECT_TRUE(user.Destroy(*program).ok());
    }
  });
  // The fake engine reckons no costs, and what fails is said at once.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  size_t heard = 0;
  while (heard < kThreads * kPrograms && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    heard = Count(said.Read(), " DOES NOT COMPILE ");
  }
  EXPECT_EQ(heard, kThreads * kPrograms) << said.Read();
}

}  // namespace
}  // namespace torus::tpu
