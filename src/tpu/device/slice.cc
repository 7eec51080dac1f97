// Reads which slice it is and names its devices.
#include "tpu/device/slice.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "slice/description.h"

namespace torus::tpu {
namespace {

using hardware::AcceleratorType;
using hardware::Catalogue;
using hardware::Topology;

constexpr char kTypeVariable[] = "TPU_ACCELERATOR_TYPE";
constexpr char kChipsVariable[] = "TPU_VISIBLE_CHIPS";
constexpr char kBoundsVariable[] = "TPU_CHIPS_PER_PROCESS_BOUNDS";
constexpr char kProcessesVariable[] = "TPU_PROCESS_BOUNDS";
constexpr char kDefaultType[] = "v4-8";
// Upstream's name, and the node's, as hosts may have several.
constexpr char kLockPrefix[] = "/tmp/libtpu_lockfile.";

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no one sets it here
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// The types whose generation `name` begins with; else each generation's smallest.
std::string ValidTypes(std::string_view name) {
  const auto& catalogue = Catalogue::BuiltIn();
  const std::string_view prefix = name.substr(0, name.rfind('-'));
  std::vector<std::string_view> types;
  const hardware::Generation* previous = nullptr;
  for (const auto& type : catalogue.accelerator_types()) {
    if (type.generation->type_prefix == prefix) types.push_back(type.name);
  }
  if (!types.empty()) return fmt::format("valid types are {}", fmt::join(types, ", "));
  for (const auto& type : catalogue.accelerator_types()) {
    if (type.generation != previous) types.push_back(type.name);
    previous = type.generation;
  }
  return fmt::format("valid types begin with these: {}", fmt::join(types, ", "));
}

// `where` names the file or variable that says `name`.
Result<const AcceleratorType*> FindType(std::string_view where, std::string_view name) {
  if (const auto* type = Catalogue::BuiltIn().FindAcceleratorType(name)) return type;
  return InvalidArgument("{} says '{}', which is no accelerator type that Torus knows; {}.", where,
                         name, ValidTypes(name));
}

Result<Slice> FromDescription(const std::string& file, const slice::Description& description) {
  TORUS_ASSIGN_OR_RETURN(
      const AcceleratorType* type,
      FindType(fmt::format("The slice file {}", file), description.accelerator_type));
  if (description.worker_addresses.size() > 1) {
    return Unimplemented(
        "The slice file {} describes {} hosts, and this libtpu.so runs a slice in one process on "
        "one host. Use a type of one host, such as {}.",
        file, description.worker_addresses.size(), kDefaultType);
  }
  const auto make = [&](const Topology& topology) {
    Slice slice(*type, topology, description.memory_limit_bytes);
    if (!description.node_uid.empty()) slice.set_lock_file(kLockPrefix + description.node_uid);
    return slice;
  };
  if (description.topology.empty()) return make(type->topology);
  const auto topology = hardware::ParseTopology(description.topology);
  if (!topology || topology->count() != type->chips) {
    return InvalidArgument("The slice file {} says TOPOLOGY '{}', but a {} has {} chips ({}).",
                           file, description.topology, type->name, type->chips,
                           type->topology.ToString());
  }
  return make(*topology);
}

Result<Slice> FromFile(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    return InvalidArgument("The slice file {} cannot be read. {} names it.", file,
                           slice::kDescriptionVariable);
  }
  const auto description = slice::Parse(text.str());
  if (!description) {
    return InvalidArgument("The slice file {}: {}.", file, description.error().message());
  }
  return FromDescription(file, *description);
}

DeviceIdentity Identify(int id, int chip, int core, const Topology& topology) {
  const auto& [x, y, z] = topology.chips;
  DeviceIdentity device{.id = id, .core_on_chip = core};
  device.coords = {chip % x, chip / x % y, chip / (x * y)};
  const auto& c = device.coords;
  device.debug_string = fmt::format("TPU_{}(process=0,({},{},{},{}))", id, c[0], c[1], c[2], core);
  device.to_string =
      fmt::format("TpuDevice(id={}, process_index=0, coords=({},{},{}), core_on_chip={})", id, c[0],
                  c[1], c[2], core);
  device.hbm_name = fmt::format("{}x{}x{}_HBM{}", c[0], c[1], c[2], core);
  return device;
}

Result<Slice> ReadWhole(const SliceSource& source) {
  if (source.description_file) return FromFile(*source.description_file);
  if (access(source.default_file.c_str(), F_OK) == 0) return FromFile(source.default_file);
  TORUS_ASSIGN_OR_RETURN(const AcceleratorType* type,
                         FindType(fmt::format("The environment variable {}", kTypeVariable),
                                  source.accelerator_type.value_or(kDefaultType)));
  return Slice(*type, type->topology, 0);
}

bool IsTrue(const std::optional<std::string>& value) {
  return value && *value != "0" && *value != "false" && *value != "False";
}

// Numbers with commas between them; none where it is something else.
std::optional<std::vector<int>> ParseNumbers(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    const auto [next, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc()) return std::nullopt;
    if (next == end) return numbers;
    if (*next != ',') return std::nullopt;
    at = next + 1;
  }
}

Result<std::vector<int>> ParseChips(std::string_view text, size_t count) {
  auto chips = ParseNumbers(text);
  if (chips) {
    std::ranges::sort(*chips);
    const bool twice = std::ranges::adjacent_find(*chips) != chips->end();
    const bool in_range = chips->front() >= 0 && static_cast<size_t>(chips->back()) < count;
    if (!twice && in_range) return *std::move(chips);
  }
  return InvalidArgument(
      "The environment variable {} says '{}'; it takes different numbers from 0 to {} with commas "
      "between them.",
      kChipsVariable, text, count - 1);
}

// The shape of the chips that a process shows; a row where nothing is said.
Result<Topology> ParseBounds(const std::optional<std::string>& text, size_t chips) {
  Topology topology{.chips = {static_cast<int>(chips), 1, 1}};
  if (!text) return topology;
  const auto bounds = ParseNumbers(*text);
  if (bounds && bounds->size() == 3) {
    std::ranges::copy(*bounds, topology.chips.begin());
    const bool positive = std::ranges::all_of(*bounds, [](int n) { return n > 0; });
    if (positive && static_cast<size_t>(topology.count()) == chips) return topology;
  }
  return InvalidArgument(
      "The environment variable {} says '{}', which is no shape of the {} chips that {} names.",
      kBoundsVariable, *text, chips, kChipsVariable);
}

// Frameworks that start a process a chip (PyTorch/XLA's launch, JAX with distributed.initialize)
// say so; each would take itself for the only one.
Status CheckProcesses(std::string_view text, const Slice& slice) {
  const auto bounds = ParseNumbers(text);
  if (!bounds || std::ranges::any_of(*bounds, [](int n) { return n < 1; })) {
    return InvalidArgument("The environment variable {} says '{}', which is no grid of processes.",
                           kProcessesVariable, text);
  }
  if (std::ranges::all_of(*bounds, [](int n) { return n == 1; })) return Status();
  const auto& [x, y, z] = slice.devices().back().coords;  // the last chip's
  return Unimplemented(
      "The environment variable {0} says '{1}', so several processes would share the slice; this "
      "libtpu.so runs all chips in one. Set {0}=1,1,1 {2}={3},{4},{5} {6}={7}: torch_xla.launch then "
      "runs a thread for each device. Or use one process and SPMD (torch_xla.runtime.use_spmd, "
      "jax.sharding).",
      kProcessesVariable, text, kBoundsVariable, x + 1, y + 1, z + 1, kChipsVariable,
      fmt::join(slice.chips(), ","));
}

}  // namespace

SliceSource SliceSource::FromEnvironment() {
  return {.description_file = Variable(slice::kDescriptionVariable),
          .default_file = slice::kDescriptionPath,
          .accelerator_type = Variable(kTypeVariable),
          .visible_chips =
              Variable(kChipsVariable) ? Variable(kChipsVariable) : Variable("TPU_VISIBLE_DEVICES"),
          .process_bounds = Variable(kBoundsVariable),
          .processes = Variable(kProcessesVariable),
          .shared = IsTrue(Variable("ALLOW_MULTIPLE_LIBTPU_LOAD"))};
}

Result<Slice> Slice::Read(const SliceSource& source) {
  TORUS_ASSIGN_OR_RETURN(Slice slice, ReadWhole(source));
  if (source.processes) {
    TORUS_RETURN_IF_ERROR(CheckProcesses(*source.processes, slice));
  }
  if (source.shared) slice.lock_file_.clear();
  if (!source.visible_chips) return slice;
  TORUS_ASSIGN_OR_RETURN(auto chips, ParseChips(*source.visible_chips, slice.chips().size()));
  TORUS_ASSIGN_OR_RETURN(const Topology topology, ParseBounds(source.process_bounds, chips.size()));
  Slice visible(*slice.type_, topology, slice.memory_limit_bytes_);
  visible.chips_ = std::move(chips);
  visible.lock_file_ = std::move(slice.lock_file_);
  return visible;
}

Slice::Slice(const AcceleratorType& type, const Topology& topology, int64_t memory_limit_bytes)
    : type_(&type), chips_(topology.count()), memory_limit_bytes_(memory_limit_bytes) {
  std::iota(chips_.begin(), chips_.end(), 0);
  const int per_chip = type.generation->devices_per_chip;
  for (int id = 0; id < topology.count() * per_chip; ++id) {
    devices_.push_back(Identify(id, id / per_chip, id % per_chip, topology));
  }
}

int Slice::cores_per_device() const {
  return generation().cores_per_chip / generation().devices_per_chip;
}

}  // namespace torus::tpu
