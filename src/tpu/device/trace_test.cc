#include "tpu/device/trace.h"

#include <gmock/gmock.h>

#include <map>
#include <thread>

#include "tpu/device/xspace.h"
#include "tpu/program/wire.h"

namespace torus::tpu {
namespace {

namespace wire = program::wire;
using program::Mark;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const hardware::Generation& SomeGeneration() {
  return *hardware::Catalogue::BuiltIn().FindAcceleratorType("v5litepod-1")->generation;
}

// Two operations, the second a loop around the third.
std::shared_ptr<const TracedProgram> Program() {
  auto program = std::make_shared<TracedProgram>();
  program->name = "jit_f";
  program->id = 7;
  program->generation = &SomeGeneration();
  program->hlo = "hlo";
  program->operations = {{.name = "dot.1",
                          .text = "%dot.1",
                          .category = "convolution",
                          .framework = "jit(f)/dot",
                          .source = "a.py:1",
                          .flops = 10,
                          .bytes_read = 3,
                          .bytes_written = 4},
                         {.name = "while.2", .text = "%while.2", .category = "while"},
                         {.name = "add.3", .text = "%add.3", .category = "loop fusion"}};
  program->marks = {{.begins = 0, .program_begins = true},
                    {.ends = 0, .begins = 1},
                    {.begins = 2},
                    {.ends = 2},
                    {.ends = 1, .program_ends = true}};
  return program;
}

TEST(TraceTest, NothingIsRecordedOutsideOfASession) {
  EXPECT_FALSE(IsTracing());
  EXPECT_EQ(BeginTracedRun(Program(), -1), nullptr);
  RecordWarning("lost");
  ASSERT_TRUE(StartTrace().ok());
  EXPECT_TRUE(IsTracing());
  const Trace trace = StopTrace();
  EXPECT_FALSE(IsTracing());
  EXPECT_THAT(trace.runs, IsEmpty());
  EXPECT_THAT(trace.warnings, IsEmpty());
  EXPECT_LE(trace.begin, trace.end);
}

TEST(TraceTest, OneSessionAtATime) {
  ASSERT_TRUE(StartTrace().ok());
  EXPECT_EQ(StartTrace().code(), Code::kFailedPrecondition);
  StopTrace();
  EXPECT_TRUE(StartTrace().ok());
  StopTrace();
}

TEST(TraceTest, WhatARunRecordsAfterItsSessionIsDropped) {
  ASSERT_TRUE(StartTrace().ok());
  const auto run = BeginTracedRun(Program(), -1);
  RecordMark(*run, 0, 0);
  EXPECT_EQ(StopTrace().marks.size(), 1);
  RecordMark(*run, 0, 1);
  ASSERT_TRUE(StartTrace().ok());
  RecordMark(*run, 0, 1);
  RecordEnd(*run, RecordBegin(*run, 0, 1), 2);
  const Trace trace = StopTrace();
  EXPECT_THAT(trace.marks, IsEmpty());
  EXPECT_THAT(trace.whole_runs, IsEmpty());
}

TEST(TraceTest, AWholeRunWhoseEndIsNotHeardOfEndsWithTheSession) {
  ASSERT_TRUE(StartTrace().ok());
  const auto run = BeginTracedRun(Program(), -1);
  const size_t told = RecordBegin(*run, 0, 1), late = RecordBegin(*run, 1, 1);
  RecordEnd(*run, told, 2);
  const Trace trace = StopTrace();
  RecordEnd(*run, late, 3);
  ASSERT_EQ(trace.whole_runs.size(), 2);
  EXPECT_EQ(trace.whole_runs[0].end, 2);
  EXPECT_EQ(trace.whole_runs[1].end, trace.end);
}

TEST(TraceTest, RecordsFromManyThreads) {
  constexpr int kThreads = 8, kMarks = 1000;
  ASSERT_TRUE(StartTrace().ok());
  const auto run = BeginTracedRun(Program(), -1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kMarks; ++i) RecordMark(*run, t, 0);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(StopTrace().marks.size(), size_t{kThreads} * kMarks);
}

// ---- The XSpace

struct Event {
  std::string name;
  int64_t offset = 0, duration = 0;  // picoseconds
  bool operator==(const Event&) const = default;
};

// What a test reads of a plane.
struct Plane {
  explicit Plane(std::string_view bytes) : name(wire::FindBytes(bytes, 2).value_or("")) {
    std::map<int64_t, std::string> names;
    for (const auto entry : wire::FindAllBytes(bytes, 4)) {
      const auto metadata = wire::FindBytes(entry, 2).value_or("");
      names[*wire::FindInt(metadata, 1)] = wire::FindBytes(metadata, 2).value_or("");
      all_names += std::string(metadata);
    }
    for (const auto entry : wire::FindAllBytes(bytes, 5)) {
      stat_names.emplace_back(
          wire::FindBytes(wire::FindBytes(entry, 2).value_or(""), 2).value_or(""));
    }
    for (const auto line : wire::FindAllBytes(bytes, 3)) {
      auto& events = lines[std::string(wire::FindBytes(line, 2).value_or(""))];
      for (const auto event : wire::FindAllBytes(line, 4)) {
        events.push_back({names[*wire::FindInt(event, 1)], wire::FindInt(event, 2).value_or(0),
                          wire::FindInt(event, 3).value_or(0)});
      }
    }
  }

  std::string name, all_names;
  std::vector<std::string> stat_names;
  std::map<std::string, std::vector<Event>> lines;
};

std::vector<Plane> PlanesOf(const Trace& trace, const XSpaceOptions& options = {}) {
  std::vector<Plane> planes;
  const std::string space = WriteXSpace(trace, options);
  for (const auto plane : wire::FindAllBytes(space, 1)) planes.emplace_back(plane);
  return planes;
}

Trace TraceOf(std::shared_ptr<const TracedRun> run, std::vector<std::pair<int, int64_t>> marks) {
  Trace trace{.begin = 1000};
  for (const auto& [mark, time] : marks) trace.marks.push_back({run.get(), time, 3, mark});
  trace.runs.push_back(std::move(run));
  return trace;
}

std::shared_ptr<const TracedRun> NewRun() {
  return std::make_shared<const TracedRun>(TracedRun{Program(), 1, 1, 99});
}

TEST(XSpaceTest, MarksBecomeEventsInEachOther) {
  const auto planes = PlanesOf(TraceOf(
      NewRun(), {{0, 1000}, {1, 1010}, {2, 1011}, {3, 1015}, {2, 1016}, {3, 1020}, {4, 1030}}));
  ASSERT_EQ(planes.size(), 2);
  const Plane& device = planes[0];
  EXPECT_EQ(device.name, "/device:TPU:3");
  EXPECT_THAT(device.lines.at("XLA Modules"), ElementsAre(Event{"jit_f(7)", 0, 30'000}));
  EXPECT_THAT(device.lines.at("Steps"), ElementsAre(Event{"0", 0, 30'000}));
  EXPECT_THAT(device.lines.at("XLA Ops"),
              ElementsAre(Event{"%dot.1", 0, 10'000}, Event{"%while.2", 10'000, 20'000},
                          Event{"%add.3", 11'000, 4'000}, Event{"%add.3", 16'000, 4'000}));
  EXPECT_THAT(device.all_names, HasSubstr("jit(f)/dot"));
  EXPECT_THAT(device.stat_names,
              testing::IsSupersetOf({"device_type_string", "peak_teraflops_per_second",
                                     "peak_hbm_bw_gigabytes_per_second", "hlo_category", "flops",
                                     "bytes_accessed", "program_id", "symbol_id", "run_id", "_c"}));
  EXPECT_EQ(planes[1].name, "/host:metadata");
  EXPECT_THAT(planes[1].stat_names, testing::Contains("Hlo Proto"));
}

TEST(XSpaceTest, ARunThatTheSessionCutsHasWhatWasWhole) {
  const auto planes = PlanesOf(TraceOf(NewRun(), {{0, 1000}, {1, 1010}, {2, 1011}}));
  EXPECT_THAT(planes[0].lines.at("XLA Modules"), IsEmpty());
  EXPECT_THAT(planes[0].lines.at("XLA Ops"), ElementsAre(Event{"%dot.1", 0, 10'000}));
}

TEST(XSpaceTest, WholeRunsOfADeviceFollowEachOther) {
  Trace trace{.begin = 1000};
  const auto run = NewRun();
  trace.runs.push_back(run);
  trace.whole_runs = {{run.get(), 1000, 1020, 0}, {run.get(), 1005, 1050, 0}};
  trace.warnings = {"no times"};
  const std::string space = WriteXSpace(trace, {.programs = false});
  EXPECT_THAT(space, HasSubstr("no times"));
  const auto planes = PlanesOf(trace, {.programs = false});
  ASSERT_EQ(planes.size(), 1);
  EXPECT_THAT(planes[0].lines.at("XLA Modules"),
              ElementsAre(Event{"jit_f(7)", 0, 20'000}, Event{"jit_f(7)", 20'000, 30'000}));
}

TEST(XSpaceTest, NothingRanNothingIsWritten) { EXPECT_EQ(WriteXSpace({}, {}), ""); }

}  // namespace
}  // namespace torus::tpu
