// From times of marks to events, and from events to bytes.
#include "tpu/device/xspace.h"

#include <algorithm>
#include <map>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <string_view>
#include <unordered_map>
#include <variant>

namespace torus::tpu {
namespace {

using protozero::pbf_writer;

// ---- Events of one device

struct Span {
  int64_t begin = 0, end = 0;  // nanoseconds
};

struct ModuleEvent {
  Span span;
  const TracedRun* run = nullptr;
};

struct OperationEvent {
  Span span;
  const TracedProgram* program = nullptr;
  int operation = 0;
};

struct DeviceEvents {
  std::vector<ModuleEvent> modules;
  std::vector<OperationEvent> operations;
};

// Reads the marks of one run on one device, in the order of their times.
class RunReader {
 public:
  RunReader(const TracedRun& run, DeviceEvents& events) : run_(run), events_(events) {}

  void Read(const Trace::MarkTime& time) {
    const program::Mark& mark = run_.program->marks[static_cast<size_t>(time.mark)];
    if (mark.program_begins) begin_ = time.nanoseconds;
    if (mark.ends != program::Mark::kNone) End(mark.ends, time.nanoseconds);
    if (mark.begins != program::Mark::kNone) begun_[mark.begins] = time.nanoseconds;
    if (mark.program_ends && begin_) {
      events_.modules.push_back({{*begin_, time.nanoseconds}, &run_});
    }
  }

 private:
  void End(int operation, int64_t now) {
    const auto begun = begun_.find(operation);
    if (begun == begun_.end()) return;  // before the session
    events_.operations.push_back({{begun->second, now}, run_.program.get(), operation});
    begun_.erase(begun);
  }

  const TracedRun& run_;
  DeviceEvents& events_;
  std::optional<int64_t> begin_;
  std::unordered_map<int, int64_t> begun_;
};

void AddMarked(std::vector<Trace::MarkTime> marks, std::map<int, DeviceEvents>& devices) {
  std::ranges::sort(marks, [](const auto& a, const auto& b) {
    return std::tuple(a.device, a.run->number, a.nanoseconds, a.mark) <
           std::tuple(b.device, b.run->number, b.nanoseconds, b.mark);
  });
  for (auto first = marks.begin(); first != marks.end();) {
    RunReader reader(*first->run, devices[first->device]);
    auto next = first;
    for (; next != marks.end() && next->run == first->run && next->device == first->device;
         ++next) {
      reader.Read(*next);
    }
    first = next;
  }
}

// A device runs one program after the other: one that was called early began when the one before
// it ended.
void AddWhole(std::vector<Trace::WholeRun> runs, std::map<int, DeviceEvents>& devices) {
  std::ranges::sort(runs, {}, &Trace::WholeRun::end);
  std::unordered_map<int, int64_t> free_since;
  for (const auto& run : runs) {
    int64_t& free = free_since[run.device];
    devices[run.device].modules.push_back({{std::max(run.begin, free), run.end}, run.run});
    free = run.end;
  }
}

// By begin; what encloses others before them.
template <typename Event>
void Sort(std::vector<Event>& events) {
  std::ranges::sort(events, [](const Event& a, const Event& b) {
    return std::pair(a.span.begin, -a.span.end) < std::pair(b.span.begin, -b.span.end);
  });
}

std::map<int, DeviceEvents> EventsOf(const Trace& trace) {
  std::map<int, DeviceEvents> devices;
  AddMarked(trace.marks, devices);
  AddWhole(trace.whole_runs, devices);
  for (auto& [device, events] : devices) {
    Sort(events.modules);
    Sort(events.operations);
  }
  return devices;
}

// ---- XSpace

namespace xspace_field {
enum : protozero::pbf_tag_type { kPlanes = 1, kWarnings = 3 };
}
namespace plane_field {
enum : protozero::pbf_tag_type {
  kId = 1,
  kName = 2,
  kLines = 3,
  kEventMetadata = 4,
  kStatMetadata = 5,
  kStats = 6
};
}
namespace line_field {
enum : protozero::pbf_tag_type { kId = 1, kName = 2, kTimestampNs = 3, kEvents = 4 };
}
namespace event_field {
enum : protozero::pbf_tag_type { kMetadataId = 1, kOffsetPs = 2, kDurationPs = 3, kStats = 4 };
}
namespace stat_field {
enum : protozero::pbf_tag_type {
  kMetadataId = 1,
  kDouble = 2,
  kInt64 = 4,
  kString = 5,
  kBytes = 6
};
}
namespace metadata_field {
enum : protozero::pbf_tag_type { kId = 1, kName = 2, kDisplayName = 4, kStats = 5 };
}

struct Bytes {
  std::string_view value;
};

struct Stat {
  std::string_view name;
  std::variant<int64_t, double, std::string_view, Bytes> value;
};
using Stats = std::vector<Stat>;

// One plane. Names of statistics and of events stand in tables of its own.
class Plane {
 public:
  Plane(int64_t id, std::string_view name) {
    writer_.add_int64(plane_field::kId, id);
    writer_.add_string(plane_field::kName, name.data(), name.size());
  }

  // Statistics, as a field of the message that they are of.
  std::string Encode(protozero::pbf_tag_type field, const Stats& stats) {
    std::string bytes;
    pbf_writer writer(bytes);
    for (const Stat& stat : stats) {
      pbf_writer message(writer, field);
      const auto next = static_cast<int64_t>(stat_names_.size()) + 1;
      message.add_int64(stat_field::kMetadataId,
                        stat_names_.emplace(stat.name, next).first->second);
      std::visit([&](const auto& value) { WriteValue(message, value); }, stat.value);
    }
    return bytes;
  }

  void AddStats(const Stats& stats) { bytes_ += Encode(plane_field::kStats, stats); }

  // A name for events; `id` 0 chooses the next one.
  int64_t AddEventName(std::string_view name, std::string_view display_name, const Stats& stats,
                       int64_t id = 0) {
    if (id == 0) id = ++last_event_name_;
    std::string rest;
    pbf_writer(rest).add_string(metadata_field::kDisplayName, display_name.data(),
                                display_name.size());
    rest += Encode(metadata_field::kStats, stats);
    AddToTable(plane_field::kEventMetadata, id, name, rest);
    return id;
  }

  void AddLine(const std::string& line) { writer_.add_message(plane_field::kLines, line); }

  std::string Finish() {
    for (const auto& [name, id] : stat_names_) AddToTable(plane_field::kStatMetadata, id, name);
    return bytes_;
  }

 private:
  // A name of one of the plane's tables, which are maps; `rest`: the other fields of its message.
  void AddToTable(protozero::pbf_tag_type table, int64_t id, std::string_view name,
                  const std::string& rest = {}) {
    constexpr protozero::pbf_tag_type kMapKey = 1, kMapValue = 2;
    std::string metadata;
    pbf_writer writer(metadata);
    writer.add_int64(metadata_field::kId, id);
    writer.add_string(metadata_field::kName, name.data(), name.size());
    pbf_writer entry(writer_, table);
    entry.add_int64(kMapKey, id);
    entry.add_message(kMapValue, metadata + rest);
  }

  static void WriteValue(pbf_writer& stat, int64_t value) {
    stat.add_int64(stat_field::kInt64, value);
  }
  static void WriteValue(pbf_writer& stat, double value) {
    stat.add_double(stat_field::kDouble, value);
  }
  static void WriteValue(pbf_writer& stat, std::string_view value) {
    stat.add_string(stat_field::kString, value.data(), value.size());
  }
  static void WriteValue(pbf_writer& stat, const Bytes& bytes) {
    stat.add_bytes(stat_field::kBytes, bytes.value.data(), bytes.value.size());
  }

  std::string bytes_;
  pbf_writer writer_{bytes_};
  std::map<std::string_view, int64_t> stat_names_;
  int64_t last_event_name_ = 0;
};

class Line {
 public:
  Line(int64_t id, std::string_view name, int64_t origin) : origin_(origin) {
    writer_.add_int64(line_field::kId, id);
    writer_.add_string(line_field::kName, name.data(), name.size());
    writer_.add_int64(line_field::kTimestampNs, origin);
  }

  // `stats` as Plane::Encode gives them for event_field::kStats.
  void Add(int64_t event_name, Span span, const std::string& stats = {}) {
    constexpr int64_t kPicoseconds = 1000;
    std::string event;
    pbf_writer writer(event);
    writer.add_int64(event_field::kMetadataId, event_name);
    writer.add_int64(event_field::kOffsetPs, (span.begin - origin_) * kPicoseconds);
    writer.add_int64(event_field::kDurationPs, (span.end - span.begin) * kPicoseconds);
    writer_.add_message(line_field::kEvents, event + stats);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  const int64_t origin_;
  std::string bytes_;
  pbf_writer writer_{bytes_};
};

// ---- The planes

// "jit_step(1234)", by which XProf finds the program.
std::string NameOf(const TracedProgram& program) {
  return fmt::format("{}({})", program.name, program.id);
}

// A tensorflow.profiler.CoreDetails: where the device is in the slice, all of it this host's.
std::string CoreDetails(int device, const hardware::Generation& generation) {
  enum : protozero::pbf_tag_type {
    kDeviceOrdinal = 2,
    kCoreNum = 3,
    kLocalChip = 4,
    kGlobalChip = 5,
    kGlobalCore = 6
  };
  const auto number = static_cast<uint32_t>(device);
  const auto per_chip = static_cast<uint32_t>(generation.devices_per_chip);
  std::string details;
  pbf_writer writer(details);
  writer.add_uint32(kDeviceOrdinal, number);
  writer.add_uint32(kCoreNum, number % per_chip);
  writer.add_uint32(kLocalChip, number / per_chip);
  writer.add_uint32(kGlobalChip, number / per_chip);
  writer.add_uint32(kGlobalCore, number);
  return details;
}

// What XProf asks of a device, a core where each is one. Of the TPU that it stands for.
void AddCapabilities(int device, const hardware::Generation& generation, Plane& plane) {
  const double devices = generation.devices_per_chip;
  plane.AddStats({{"core_details", Bytes{CoreDetails(device, generation)}}});
  plane.AddStats(
      {{"device_type_string", std::string_view(generation.device_kind)},
       {"peak_teraflops_per_second", generation.peak_bf16_flops / devices / 1e12},
       {"peak_hbm_bw_gigabytes_per_second", generation.hbm_bandwidth / devices / 1e9},
       {"memory_size", generation.usable_hbm_bytes},
       {"core_count", int64_t{1}},
       {"has_megacore", int64_t{generation.cores_per_chip > generation.devices_per_chip}},
       {"device_vendor", std::string_view("Google")}});
}

// The event of the framework's trace that a run belongs to, by which XProf finds its step.
void AddLaunch(const TracedRun& run, Stats& stats) {
  constexpr int64_t kPjrtLibraryCall = 14;  // tsl::profiler::ContextType
  if (run.context < 0) return;
  stats.push_back({"_ct", kPjrtLibraryCall});
  stats.push_back({"_c", run.context});
}

std::string StepLine(const DeviceEvents& events, int64_t origin, Plane& plane) {
  Line line(1, "Steps", origin);
  int64_t number = 0;
  for (const auto& [span, run] : events.modules) {
    line.Add(plane.AddEventName(std::to_string(number++), "", {}), span);
  }
  return line.bytes();
}

std::string ModuleLine(const DeviceEvents& events, int64_t origin, Plane& plane) {
  Line line(2, "XLA Modules", origin);
  std::map<const TracedProgram*, int64_t> names;
  for (const auto& [span, run] : events.modules) {
    auto [name, is_new] = names.try_emplace(run->program.get(), 0);
    if (is_new) {
      name->second =
          plane.AddEventName(NameOf(*run->program), "", {{"program_id", run->program->id}});
    }
    Stats stats{{"run_id", run->number}};
    AddLaunch(*run, stats);
    line.Add(name->second, span, plane.Encode(event_field::kStats, stats));
  }
  return line.bytes();
}

// A tensorflow.profiler.MemoryAccessBreakdown: all of it HBM.
std::string MemoryAccesses(const TracedProgram::Operation& operation) {
  enum : protozero::pbf_tag_type { kOperationType = 1, kMemorySpace = 2, kBytesAccessed = 3 };
  constexpr protozero::pbf_tag_type kAccessed = 1;
  constexpr int kRead = 1, kWrite = 2;
  constexpr uint64_t kHbm = 1;
  std::string accesses;
  pbf_writer writer(accesses);
  const auto add = [&](int type, int64_t bytes) {
    pbf_writer access(writer, kAccessed);
    access.add_enum(kOperationType, type);
    access.add_uint64(kMemorySpace, kHbm);
    access.add_uint64(kBytesAccessed, static_cast<uint64_t>(bytes));
  };
  add(kRead, operation.bytes_read);
  add(kWrite, operation.bytes_written);
  return accesses;
}

int64_t AddOperationName(const TracedProgram& program, int number, Plane& plane) {
  const auto& operation = program.operations[static_cast<size_t>(number)];
  const std::string accesses = MemoryAccesses(operation);
  Stats stats{{"program_id", program.id},
              {"symbol_id", int64_t{number} + 1},
              {"hlo_category", std::string_view(operation.category)},
              {"hlo_op", std::string_view(operation.name)},
              {"hlo_module", std::string_view(program.name)},
              {"flops", operation.flops},
              {"model_flops", operation.flops},
              {"bytes_accessed", operation.bytes_read + operation.bytes_written},
              {"memory_access_breakdown", Bytes{accesses}}};
  if (!operation.framework.empty()) {
    stats.push_back({"tf_op", std::string_view(operation.framework)});
  }
  if (!operation.source.empty()) stats.push_back({"source", std::string_view(operation.source)});
  return plane.AddEventName(operation.text, operation.name, stats);
}

std::string OperationLine(const DeviceEvents& events, int64_t origin, Plane& plane) {
  Line line(3, "XLA Ops", origin);
  std::map<std::pair<const TracedProgram*, int>, int64_t> names;
  for (const auto& [span, program, operation] : events.operations) {
    auto [name, is_new] = names.try_emplace({program, operation}, 0);
    if (is_new) name->second = AddOperationName(*program, operation, plane);
    line.Add(name->second, span);
  }
  return line.bytes();
}

std::string DevicePlane(int device, const DeviceEvents& events, const Trace& trace,
                        const XSpaceOptions& options) {
  Plane plane(device, fmt::format("/device:TPU:{}", device));
  if (!events.modules.empty()) {
    AddCapabilities(device, *events.modules.front().run->program->generation, plane);
  }
  // jaxlib keeps of a plugin's XSpace only its planes.
  for (const std::string& warning : trace.warnings) {
    plane.AddStats({{"dropped_traces", std::string_view(warning)}});
  }
  plane.AddLine(StepLine(events, trace.begin, plane));
  plane.AddLine(ModuleLine(events, trace.begin, plane));
  if (options.operations) plane.AddLine(OperationLine(events, trace.begin, plane));
  return plane.Finish();
}

// The programs that ran, each as an xla.HloProto.
std::string ProgramPlane(const Trace& trace) {
  constexpr int64_t kPlaneId = 1 << 20;  // behind every device's
  constexpr protozero::pbf_tag_type kHloModule = 1;
  Plane plane(kPlaneId, "/host:metadata");
  std::set<int64_t> written;
  for (const auto& run : trace.runs) {
    const TracedProgram& program = *run->program;
    if (program.hlo.empty() || !written.insert(program.id).second) continue;
    std::string hlo;
    pbf_writer(hlo).add_message(kHloModule, program.hlo);
    plane.AddEventName(NameOf(program), "", {{"Hlo Proto", Bytes{hlo}}, {"program_id", program.id}},
                       program.id);
  }
  return written.empty() ? std::string() : plane.Finish();
}

}  // namespace

std::string WriteXSpace(const Trace& trace, const XSpaceOptions& options) {
  std::string space;
  pbf_writer writer(space);
  for (const auto& [device, events] : EventsOf(trace)) {
    writer.add_message(xspace_field::kPlanes, DevicePlane(device, events, trace, options));
  }
  const std::string programs = options.programs ? ProgramPlane(trace) : std::string();
  if (!programs.empty()) writer.add_message(xspace_field::kPlanes, programs);
  for (const auto& warning : trace.warnings) writer.add_string(xspace_field::kWarnings, warning);
  return space;
}

}  // namespace torus::tpu
