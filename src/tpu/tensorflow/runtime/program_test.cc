#include "tpu/tensorflow/runtime/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tpu/program/testing.h"
#include "tpu/tensorflow/runtime/testing.h"

namespace torus::tensorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kCores = fake_pjrt::kCores;

// A program of one instruction besides its parameters; what the fake API computes, fake_pjrt.h
// says.
ProgramSource Source(const std::string& opcode, int replicas, size_t arrays = 1) {
  program::ModuleBuilder module;
  const auto shape = program::ArrayShape(program::ElementType::kF32, {1});
  std::vector<int64_t> parameters;
  for (size_t i = 0; i < arrays; ++i) {
    parameters.push_back(module.Add("parameter", shape));
    module[parameters.back()].parameter_number = static_cast<int64_t>(i);
  }
  module.Add(opcode, shape, parameters);
  return {.hlo = program::WriteHlo(module.Build()),
          .replicas = replicas,
          .inputs = std::vector(arrays, kOneFloat),
          .outputs = std::vector(arrays, kOneFloat)};
}

// Of which every device runs for itself, and of which all run together.
std::shared_ptr<Program> Alone(size_t arrays = 1) {
  return *Program::Compile(Source("negate", kCores, arrays));
}
std::shared_ptr<Program> Joint(int replicas = kCores) {
  return *Program::Compile(Source("all-reduce", replicas));
}

std::shared_ptr<DeviceMemory> Memory(int device, std::shared_ptr<Array> array = nullptr) {
  auto memory = std::make_shared<DeviceMemory>(device, sizeof(float));
  memory->Set(std::move(array));
  return memory;
}

// A stream, an input of the device's number, and an output, for every device.
struct Cores {
  Cores() {
    for (int device = 0; device < kCores; ++device) {
      streams.push_back(Stream::Make());
      inputs.push_back(Memory(device, MakeArray(device, static_cast<float>(device))));
      outputs.push_back(Memory(device));
    }
  }

  Status Enqueue(Program& program, int device) {
    return program.Enqueue(device, *streams[device], {inputs[device].get()},
                           {outputs[device].get()});
  }
  // Its output becomes its input.
  Status EnqueueInPlace(Program& program, int device) {
    return program.Enqueue(device, *streams[device], {inputs[device].get()},
                           {inputs[device].get()});
  }

  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<std::shared_ptr<DeviceMemory>> inputs, outputs;
};

constexpr float kSum = 0 + 1 + 2 + 3 + 4 + 5 + 6 + 7;

class ProgramTest : public TpuTest {
 protected:
  ~ProgramTest() override { fake_pjrt::Release(); }

  // Launches since the test began.
  int Launches() const { return fake_pjrt::launched().launches - before_; }

  Cores cores_;

 private:
  const int before_ = fake_pjrt::launched().launches;
};

// ---- Of devices that have nothing to do with one another

TEST_F(ProgramTest, WithoutCollectivesRunsOnEachDeviceForItself) {
  const auto program = Alone();
  for (const int device : {5, 0}) {
    ASSERT_TRUE(cores_.Enqueue(*program, device).ok());
    EXPECT_EQ(Read(cores_.outputs[device]->array()), device + 1);
    EXPECT_TRUE(cores_.streams[device]->Wait().ok());
    EXPECT_EQ(fake_pjrt::launched().devices, 1u);
  }
  EXPECT_EQ(Launches(), 2);
}

TEST_F(ProgramTest, EndsOnItsStreamWhenItHasRun) {
  const auto program = Alone();
  fake_pjrt::Hold();
  ASSERT_TRUE(cores_.Enqueue(*program, 0).ok());
  const auto mark = cores_.streams[0]->Mark();
  EXPECT_FALSE(mark->completed());
  std::jthread engine(fake_pjrt::Release);
  EXPECT_TRUE(EndsSoon(*cores_.streams[0]));
  EXPECT_TRUE(mark->completed());
}

TEST_F(ProgramTest, WaitsForAValueThatIsToCome) {
  const auto program = Alone();
  const auto input = std::make_shared<Array>();
  cores_.inputs[0]->Set(input);
  ASSERT_TRUE(cores_.Enqueue(*program, 0).ok());
  EXPECT_EQ(Launches(), 0);
  Array::Resolve(input, MakeBuffer(41));
  EXPECT_EQ(Launches(), 1);
  EXPECT_EQ(Read(cores_.outputs[0]->array()), 42);
}

TEST_F(ProgramTest, ReadsWhatItsMemoryHeldWhenItWasEnqueued) {
  const auto program = Alone();
  const auto input = std::make_shared<Array>();
  cores_.inputs[0]->Set(input);
  ASSERT_TRUE(cores_.Enqueue(*program, 0).ok());
  cores_.inputs[0]->Set(MakeArray(0, 100));
  Array::Resolve(input, MakeBuffer(1));
  EXPECT_EQ(Read(cores_.outputs[0]->array()), 2);
}

// ---- Of devices that run together

TEST_F(ProgramTest, WithACollectiveIsLaunchedByTheLastDeviceToCome) {
  const auto program = Joint();
  for (int device = 0; device < kCores; ++device) {
    EXPECT_EQ(Launches(), 0);
    ASSERT_TRUE(cores_.Enqueue(*program, device).ok());  // all from one thread
  }
  EXPECT_EQ(Launches(), 1);
  EXPECT_EQ(fake_pjrt::launched().devices, static_cast<size_t>(kCores));
  for (int device = 0; device < kCores; ++device) {
    EXPECT_EQ(Read(cores_.outputs[device]->array()), kSum + 1);
    EXPECT_TRUE(cores_.streams[device]->Wait().ok());
  }
}

TEST_F(ProgramTest, OfSeveralPartitionsIsLaunchedTogetherToo) {
  auto source = Source("negate", 2);
  source.partitions = 2;
  source.spmd = true;
  source.devices = {6, 4, 2, 0};
  const auto program = *Program::Compile(std::move(source));
  for (const int device : {0, 6, 2, 4}) {
    EXPECT_EQ(Launches(), 0);
    ASSERT_TRUE(cores_.Enqueue(*program, device).ok());
  }
  EXPECT_EQ(Launches(), 1);
  EXPECT_EQ(Read(cores_.outputs[4]->array()), 0 + 2 + 4 + 6 + 1);
}

TEST_F(ProgramTest, BringsEachDeviceWhatIsItsOwn) {
  const auto program = Joint();
  // An input that only one device's launch can have made equal: the last core's is to come.
  const auto last = std::make_shared<Array>();
  cores_.inputs[7]->Set(last);
  for (int device = kCores - 1; device >= 0; --device)
    ASSERT_TRUE(cores_.EnqueueInPlace(*program, device).ok());
  EXPECT_EQ(Launches(), 0);
  Array::Resolve(last, MakeBuffer(7));
  EXPECT_EQ(Launches(), 1);
  for (int device = 0; device < kCores; ++device)
    EXPECT_EQ(Read(cores_.inputs[device]->array()), kSum + 1);
}

TEST_F(ProgramTest, ADeviceMayBeLaunchesAheadOfTheOthers) {
  constexpr int kAhead = 3;
  const auto program = Joint(2);
  for (int i = 0; i < kAhead; ++i) ASSERT_TRUE(cores_.EnqueueInPlace(*program, 0).ok());
  EXPECT_EQ(Launches(), 0);
  auto expected = std::array<float, 2>{0, 1};
  for (int i = 0; i < kAhead; ++i) {
    ASSERT_TRUE(cores_.EnqueueInPlace(*program, 1).ok());
    EXPECT_EQ(Launches(), i + 1);
    expected.fill(expected[0] + expected[1] + 1);
    EXPECT_EQ(Read(cores_.inputs[1]->array()), expected[1]);
  }
  EXPECT_EQ(Read(cores_.inputs[0]->array()), expected[0]);
}

TEST_F(ProgramTest, TwoThatAreEnqueuedInAnotherOrderOnEachDeviceDoNotWaitForEachOther) {
  constexpr int kRounds = 20;
  const auto one = Joint(), other = Joint();
  std::vector<std::shared_ptr<DeviceMemory>> of_other;
  for (int device = 0; device < kCores; ++device)
    of_other.push_back(Memory(device, MakeArray(device, 0)));
  {
    std::vector<std::jthread> threads;
    for (int device = 0; device < kCores; ++device) {
      threads.emplace_back([&, device] {
        auto& stream = *cores_.streams[device];
        auto* memory = of_other[device].get();
        for (int round = 0; round < kRounds; ++round) {
          const bool first = device % 2 == 0;
          EXPECT_TRUE(!first || cores_.Enqueue(*one, device).ok());
          EXPECT_TRUE(other->Enqueue(device, stream, {memory}, {memory}).ok());
          EXPECT_TRUE(first || cores_.Enqueue(*one, device).ok());
        }
      });
    }
  }
  float expected = 0;
  for (int round = 0; round < kRounds; ++round) expected = kCores * expected + 1;
  for (int device = 0; device < kCores; ++device) {
    ASSERT_TRUE(EndsSoon(*cores_.streams[device])) << "device " << device;
    EXPECT_EQ(Read(cores_.outputs[device]->array()), kSum + 1);
    EXPECT_EQ(Read(of_other[device]->array()), expected);
  }
  EXPECT_EQ(Launches(), 2 * kRounds);
}

TEST_F(ProgramTest, TwoThatAreLaunchedAtATimeKeepOneOrderOnAllDevices) {
  auto reversed = Source("all-reduce", kCores);
  for (int device = kCores - 1; device >= 0; --device) reversed.devices.push_back(device);
  const auto one = Joint(), other = *Program::Compile(std::move(reversed));
  for (int round = 0; round < 5; ++round) {
    for (int device = 0; device < kCores; ++device) {
      EXPECT_TRUE(device == 0 || cores_.Enqueue(*one, device).ok());
      EXPECT_TRUE(device == 1 || cores_.Enqueue(*other, device).ok());
    }
    std::latch both(2);
    std::jthread launches_other([&] {
      both.arrive_and_wait();
      EXPECT_TRUE(cores_.Enqueue(*other, 1).ok());
    });
    both.arrive_and_wait();
    EXPECT_TRUE(cores_.Enqueue(*one, 0).ok());
    launches_other.join();
    for (const auto& stream : cores_.streams) ASSERT_TRUE(EndsSoon(*stream));
  }
}

// ---- Inputs that are given up

TEST_F(ProgramTest, GivesUpAnInputWhoseMemoryAnOutputTakes) {
  const auto program = Alone();
  const std::weak_ptr<Array> input = cores_.inputs[0]->array();
  ASSERT_TRUE(cores_.EnqueueInPlace(*program, 0).ok());
  EXPECT_THAT(fake_pjrt::launched().kept, IsEmpty());
  EXPECT_TRUE(input.expired());
}

TEST_F(ProgramTest, KeepsAnInputWhoseMemoryNoOutputTakes) {
  const auto program = Alone();
  ASSERT_TRUE(cores_.Enqueue(*program, 3).ok());
  EXPECT_THAT(fake_pjrt::launched().kept, ElementsAre(0));
  EXPECT_EQ(Read(cores_.inputs[3]->array()), 3);
}

TEST_F(ProgramTest, KeepsAnInputThatAnotherStillReads) {
  const auto program = Alone();
  const auto reader = cores_.inputs[3]->array();
  ASSERT_TRUE(cores_.EnqueueInPlace(*program, 3).ok());
  EXPECT_THAT(fake_pjrt::launched().kept, ElementsAre(0));
  EXPECT_EQ(Read(reader), 3);
  EXPECT_EQ(Read(cores_.inputs[3]->array()), 4);
}

TEST_F(ProgramTest, KeepsAnInputThatIsTwoInputs) {
  const auto program = Alone(2);
  auto* const input = cores_.inputs[3].get();
  auto* const output = cores_.outputs[3].get();
  ASSERT_TRUE(program->Enqueue(3, *cores_.streams[3], {input, input}, {input, output}).ok());
  EXPECT_THAT(fake_pjrt::launched().kept, ElementsAre(0, 1));
}

TEST_F(ProgramTest, KeepsOnEveryDeviceWhatIsReadOnOne) {
  const auto program = Joint(2);
  const auto reader = cores_.inputs[1]->array();
  for (const int device : {0, 1}) ASSERT_TRUE(cores_.EnqueueInPlace(*program, device).ok());
  EXPECT_THAT(fake_pjrt::launched().kept, ElementsAre(0));
  EXPECT_EQ(Read(reader), 1);
}

// Steps that are enqueued ahead give their state on, as those do that find it there.
TEST_F(ProgramTest, GivesUpAnInputThatWasToCome) {
  const auto program = Alone();
  auto first = std::make_shared<Array>();
  cores_.inputs[0]->Set(first);
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(cores_.EnqueueInPlace(*program, 0).ok());
  Array::Resolve(std::move(first), MakeBuffer(1));
  EXPECT_EQ(Launches(), 3);
  EXPECT_THAT(fake_pjrt::launched().kept, IsEmpty());
  EXPECT_EQ(Read(cores_.inputs[0]->array()), 4);
}

TEST_F(ProgramTest, GivesUpACopyThatWasToCome) {
  const auto program = Alone();
  auto first = std::make_shared<Array>();
  cores_.inputs[1]->Set(CopyTo(1, 0, first));
  ASSERT_TRUE(cores_.EnqueueInPlace(*program, 1).ok());
  Array::Resolve(std::move(first), MakeBuffer(1));
  EXPECT_EQ(Launches(), 1);
  EXPECT_THAT(fake_pjrt::launched().kept, IsEmpty());
}

TEST_F(ProgramTest, LeavesNoBufferBehind) {
  const int before = fake_pjrt::LiveBuffers();
  {
    const auto program = Joint();
    for (int step = 0; step < 3; ++step)
      for (int device = 0; device < kCores; ++device)
        ASSERT_TRUE(cores_.EnqueueInPlace(*program, device).ok());
    for (auto& stream : cores_.streams) ASSERT_TRUE(EndsSoon(*stream));
  }
  EXPECT_EQ(fake_pjrt::LiveBuffers(), before);
}

// ---- Errors

TEST_F(ProgramTest, ThatDoesNotCompileSaysWhy) {
  EXPECT_EQ(Program::Compile(Source("out-of-memory", 1)).error(),
            Status(Code::kResourceExhausted, "it needs too much HBM"));
  EXPECT_EQ(Program::Compile({.hlo = "no module"}).error().code(), Code::kInvalidArgument);
  auto elsewhere = Source("all-reduce", 2);
  elsewhere.devices = {0, kCores};
  EXPECT_EQ(Program::Compile(std::move(elsewhere)).error().code(), Code::kInvalidArgument);
}

TEST_F(ProgramTest, RefusesADeviceThatItWasNotCompiledFor) {
  const auto program = Joint(2);
  const auto status = cores_.Enqueue(*program, 2);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("core 2"));
  EXPECT_EQ(program->Enqueue(kCores, *cores_.streams[0], {nullptr}, {nullptr}).code(),
            Code::kInvalidArgument);
}

TEST_F(ProgramTest, RefusesAnotherNumberOfArraysThanItHas) {
  const auto program = Alone();
  const auto status = program->Enqueue(0, *cores_.streams[0], {}, {cores_.outputs[0].get()});
  EXPECT_THAT(status.message(), HasSubstr("1 inputs and 1 outputs was given 0 and 1"));
}

TEST_F(ProgramTest, RefusesMemoryThatNothingWasWrittenTo) {
  const auto program = Alone();
  cores_.inputs[0]->Set(nullptr);
  EXPECT_EQ(cores_.Enqueue(*program, 0).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(EndsSoon(*cores_.streams[0]));
}

TEST_F(ProgramTest, TakesZerosForAnInputThatIsAnotherCores) {
  const auto program = Joint(2);
  ASSERT_TRUE(cores_.Enqueue(*program, 1).ok());
  ASSERT_TRUE(program->Enqueue(0, *cores_.streams[0], {nullptr}, {nullptr}).ok());
  EXPECT_EQ(Read(cores_.outputs[1]->array()), 1 + 0 + 1);
}

TEST_F(ProgramTest, TakesNoMemoryForAnInputWithoutElements) {
  auto source = Source("negate", 1);
  source.inputs = source.outputs = {{PJRT_Buffer_Type_F32, {0}}};
  const auto program = *Program::Compile(std::move(source));
  ASSERT_TRUE(program->Enqueue(0, *cores_.streams[0], {nullptr}, {nullptr}).ok());
  EXPECT_TRUE(cores_.streams[0]->Wait().ok());
  EXPECT_EQ(Launches(), 1);
}

TEST_F(ProgramTest, AnInputsErrorIsThatOfTheOutputsAndBreaksNoStream) {
  const auto program = Joint(2);
  const auto input = std::make_shared<Array>();
  cores_.inputs[0]->Set(input);
  for (const int device : {0, 1}) ASSERT_TRUE(cores_.Enqueue(*program, device).ok());
  const Status lost(Code::kInternal, "lost");
  Array::Resolve(input, Error(lost));
  EXPECT_EQ(Launches(), 0);
  for (const int device : {0, 1}) {
    EXPECT_EQ(Read(cores_.outputs[device]->array()).error(), lost);
    EXPECT_TRUE(cores_.streams[device]->Wait().ok());
  }
}

TEST_F(ProgramTest, ALaunchThatIsRefusedIsTheErrorOfWhatReadsTheOutputs) {
  const auto program = Alone();
  const Status refused(Code::kResourceExhausted, "no room");
  fake_pjrt::RefuseNext(refused);
  ASSERT_TRUE(cores_.EnqueueInPlace(*program, 0).ok());
  ASSERT_TRUE(cores_.EnqueueInPlace(*program, 0).ok());
  EXPECT_EQ(Launches(), 0);
  EXPECT_EQ(Read(cores_.inputs[0]->array()).error(), refused);
  EXPECT_TRUE(cores_.streams[0]->Wait().ok());
}

TEST_F(ProgramTest, AnErrorOfRunningIsTheStreams) {
  const auto program = Alone();
  const Status failed(Code::kInternal, "it broke");
  fake_pjrt::FailNext(failed);
  ASSERT_TRUE(cores_.Enqueue(*program, 0).ok());
  EXPECT_EQ(cores_.streams[0]->Wait(), failed);
}

// ---- Devices that do not come

TEST_F(ProgramTest, FailWaitingFreesALaunchThatWaitsForADevice) {
  const auto program = Joint(2);
  const Status gone(Code::kUnavailable, "the device is gone");
  ASSERT_TRUE(cores_.Enqueue(*program, 0).ok());
  Program::FailWaiting(gone);
  EXPECT_TRUE(cores_.streams[0]->Wait().ok());
  EXPECT_EQ(Read(cores_.outputs[0]->array()).error(), gone);
  for (const int device : {0, 1})
    ASSERT_TRUE(cores_.Enqueue(*program, device).ok());  // a fresh one
  EXPECT_EQ(Read(cores_.outputs[1]->array()), 0 + 1 + 1);
}

TEST_F(ProgramTest, FailWaitingFreesWhatWaitsForTheOutputs) {
  const auto joint = Joint(2), alone = Alone();
  ASSERT_TRUE(cores_.EnqueueInPlace(*joint, 0).ok());
  ASSERT_TRUE(cores_.Enqueue(*alone, 0).ok());
  auto read = BeginRead(cores_.outputs[0]->array());
  EXPECT_FALSE(Has(read));
  Program::FailWaiting(Status(Code::kUnavailable, "gone"));
  EXPECT_EQ(Soon(std::move(read)).error().message(), "gone");
  EXPECT_EQ(Launches(), 0);
}

TEST_F(ProgramTest, FreedWhileItWaitsForADeviceCancelsTheLaunch) {
  auto program = Joint(2);
  ASSERT_TRUE(cores_.Enqueue(*program, 0).ok());
  program = nullptr;
  EXPECT_TRUE(cores_.streams[0]->Wait().ok());
  EXPECT_EQ(Read(cores_.outputs[0]->array()).error().code(), Code::kCancelled);
}

TEST_F(ProgramTest, FreedWhileItWaitsForAValueRunsAllTheSame) {
  auto program = Alone();
  const auto input = std::make_shared<Array>();
  cores_.inputs[0]->Set(input);
  ASSERT_TRUE(cores_.Enqueue(*program, 0).ok());
  program = nullptr;
  Array::Resolve(input, MakeBuffer(1));
  EXPECT_EQ(Read(cores_.outputs[0]->array()), 2);
}

// Every device on its own thread, which waits, reads and rewrites, while programs come and go.
TEST_F(ProgramTest, ServesManyThreadsAtATime) {
  constexpr int kSteps = 20;
  const auto program = Joint();
  std::jthread others([] {
    for (int i = 0; i < kSteps; ++i) {
      const auto other = Alone();
      const auto stream = Stream::Make();
      const auto memory = Memory(0, MakeArray(0, 0));
      EXPECT_TRUE(other->Enqueue(0, *stream, {memory.get()}, {memory.get()}).ok());
      EXPECT_EQ(Read(memory->array()), 1);
      EXPECT_TRUE(stream->Wait().ok());
    }
  });
  std::vector<std::jthread> threads;
  for (int device = 0; device < kCores; ++device) {
    threads.emplace_back([&, device] {
      for (int step = 0; step < kSteps; ++step) {
        EXPECT_TRUE(cores_.EnqueueInPlace(*program, device).ok());
        auto before = BeginRead(cores_.inputs[device]->array());
        if (step % 4 == 0) cores_.inputs[device]->Set(MakeArray(device, 1));
        EXPECT_TRUE(Soon(std::move(before)).has_value());
        EXPECT_TRUE(step % 3 != 0 || EndsSoon(*cores_.streams[device]));
      }
    });
  }
}

}  // namespace
}  // namespace torus::tensorflow
