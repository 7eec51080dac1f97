// Reads which slice it is and names its devices.
#include "tpu/device/slice.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
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
constexpr char kTaskVariable[] = "CLOUD_TPU_TASK_ID";
constexpr char kAddressesVariable[] = "TPU_PROCESS_ADDRESSES";
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
  DeviceIdentity device{.id = id, .chip = chip, .core_on_chip = core};
  device.coords = {chip % x, chip / x % y, chip / (x * y)};
  const auto& c = device.coords;
  device.hbm_name = fmt::format("{}x{}x{}_HBM{}", c[0], c[1], c[2], core);
  return device;
}

void Name(DeviceIdentity& device) {
  const auto& c = device.coords;
  const auto place = fmt::format("{},{},{}", c[0], c[1], c[2]);
  device.debug_string = fmt::format("TPU_{}(process={},({},{}))", device.id, device.process, place,
                                    device.core_on_chip);
  device.to_string = fmt::format("TpuDevice(id={}, process_index={}, coords=({}), core_on_chip={})",
                                 device.id, device.process, place, device.core_on_chip);
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

// Three numbers of 1 and more; a fourth may be a 1.
std::optional<std::vector<int>> ParseBox(std::string_view text) {
  auto box = ParseNumbers(text);
  if (box && box->size() == 4 && box->back() == 1) box->pop_back();
  if (!box || std::ranges::any_of(*box, [](int n) { return n < 1; })) return std::nullopt;
  return box;
}

// The shape of the chips that a process shows; a row where nothing is said.
Result<Topology> ParseBounds(const std::optional<std::string>& text, size_t chips) {
  Topology topology{.chips = {static_cast<int>(chips), 1, 1}};
  if (!text) return topology;
  const auto bounds = ParseBox(*text);
  if (bounds && bounds->size() == 3) {
    std::ranges::copy(*bounds, topology.chips.begin());
    if (static_cast<size_t>(topology.count()) == chips) return topology;
  }
  return InvalidArgument(
      "The environment variable {} says '{}', which is no shape of the {} chips that {} names.",
      kBoundsVariable, *text, chips, kChipsVariable);
}

// Frameworks that start a process a chip say so; each would take itself for the only one.
Error RefuseProcesses(std::string_view text, const Topology& topology,
                      const std::vector<int>& chips) {
  const auto& [x, y, z] = topology.chips;
  return Unimplemented(
      "The environment variable {0} says '{1}', so several processes would share the slice; with "
      "this "
      "framework, this libtpu.so runs all chips in one. Set {0}=1,1,1 {2}={3},{4},{5} {6}={7}, and "
      "use one process that has all devices (jax.sharding).",
      kProcessesVariable, text, kBoundsVariable, x, y, z, kChipsVariable, fmt::join(chips, ","));
}

// How the chips are shared out: each process has a block, and the blocks stand in a grid. Where
// each core of a chip is a function of its own on the bus (TPU7x), PyTorch/XLA starts a process a
// core, and says so by a fourth number of the grid. Process n then has device n.
struct Blocks {
  std::vector<int> grid, block;
  int processes_per_chip = 1;

  int count() const { return grid[0] * grid[1] * grid[2] * processes_per_chip; }
  bool split_chips() const { return processes_per_chip > 1; }
  bool fill(const Topology& topology) const {
    for (size_t axis = 0; axis < 3; ++axis)
      if (grid[axis] * block[axis] != topology.chips[axis]) return false;
    return true;
  }
  int OwnerOf(const DeviceIdentity& device) const {
    const auto at = [&](size_t axis) {
      return static_cast<int>(device.coords[axis]) / block[axis];
    };
    const int place = at(0) + grid[0] * (at(1) + grid[1] * at(2));
    return place * processes_per_chip + (split_chips() ? device.core_on_chip : 0);
  }
};

Result<Blocks> ParseBlocks(const SliceSource& source, std::vector<int> grid,
                           const hardware::Generation& generation, const Topology& topology) {
  const std::string bounds = source.process_bounds.value_or("1,1,1");
  const int most = std::min(generation.devices_per_chip, generation.pci_functions_per_chip);
  int per_chip = 1;
  if (grid.size() == 4) {
    per_chip = grid.back();
    grid.pop_back();
  }
  const auto block = ParseBox(bounds);
  if (block && block->size() == 3 && grid.size() == 3 && (per_chip == 1 || per_chip == most)) {
    Blocks blocks{std::move(grid), *block, per_chip};
    if (blocks.fill(topology)) return blocks;
  }
  const auto fourth =
      fmt::format("; a fourth number of the first may be {}: a process for each core", most);
  return InvalidArgument(
      "The environment variables {} and {} say '{}' and '{}'; their products must be the slice's "
      "{}{}.",
      kProcessesVariable, kBoundsVariable, *source.processes, bounds, topology.ToString(),
      most > 1 ? fourth : "");
}

// Which of so many processes this one is.
Result<int> ParseTask(const std::optional<std::string>& text, int count) {
  const auto task = ParseNumbers(text.value_or(""));
  if (task && task->size() == 1 && task->front() >= 0 && task->front() < count)
    return task->front();
  return InvalidArgument(
      "The environment variable {} says '{}'; it takes the number of this process, from 0 to {}, "
      "as "
      "{} says that there are {}.",
      kTaskVariable, text.value_or(""), count - 1, kProcessesVariable, count);
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
          .task = Variable(kTaskVariable),
          .addresses = Variable(kAddressesVariable),
          .shared = IsTrue(Variable("ALLOW_MULTIPLE_LIBTPU_LOAD"))};
}

Result<Slice> Slice::Read(const SliceSource& source) {
  TORUS_ASSIGN_OR_RETURN(Slice slice, ReadWhole(source));
  if (source.shared) slice.lock_file_.clear();
  const auto grid = ParseBox(source.processes.value_or("1,1,1"));
  if (!grid) {
    return InvalidArgument("The environment variable {} says '{}', which is no grid of processes.",
                           kProcessesVariable, *source.processes);
  }
  const bool several = std::ranges::any_of(*grid, [](int n) { return n > 1; });
  if (several && !source.can_be_one_of_several) {
    return RefuseProcesses(*source.processes, slice.topology_, slice.chips());
  }
  TORUS_RETURN_IF_ERROR(several ? slice.ShareOut(source, *grid) : slice.ShowChips(source));
  std::ranges::for_each(slice.devices_, Name);
  return slice;
}

// Only those that the environment names.
Status Slice::ShowChips(const SliceSource& source) {
  if (!source.visible_chips) return Status();
  TORUS_ASSIGN_OR_RETURN(auto chips, ParseChips(*source.visible_chips, topology_.count()));
  TORUS_ASSIGN_OR_RETURN(const Topology topology, ParseBounds(source.process_bounds, chips.size()));
  devices_ = Slice(*type_, topology, 0).devices_;
  for (auto& device : devices_) device.chip = chips[static_cast<size_t>(device.chip)];
  topology_ = topology;
  return Status();
}

// All of them, each a process's.
Status Slice::ShareOut(const SliceSource& source, const std::vector<int>& grid) {
  TORUS_ASSIGN_OR_RETURN(const Blocks blocks, ParseBlocks(source, grid, generation(), topology_));
  TORUS_ASSIGN_OR_RETURN(const int own, ParseTask(source.task, blocks.count()));
  const std::string addresses = source.addresses.value_or("localhost:8476");
  processes_ = {blocks.count(), own, addresses.substr(0, addresses.find(','))};
  for (auto& device : devices_) device.process = blocks.OwnerOf(device);
  if (!source.visible_chips) return Status();
  const auto numbers = blocks.split_chips() ? cores() : chips();
  const size_t all = blocks.split_chips() ? devices_.size() : topology_.count();
  TORUS_ASSIGN_OR_RETURN(const auto named, ParseChips(*source.visible_chips, all));
  if (named == numbers) return Status();
  return InvalidArgument(
      "The environment variable {} says '{}', but process {} of {} has the {} {} of the slice.",
      kChipsVariable, *source.visible_chips, own, blocks.count(),
      blocks.split_chips() ? "cores" : "chips", fmt::join(numbers, ","));
}

Slice::Slice(const AcceleratorType& type, const Topology& topology, int64_t memory_limit_bytes)
    : type_(&type), topology_(topology), memory_limit_bytes_(memory_limit_bytes) {
  const int per_chip = type.generation->devices_per_chip;
  for (int id = 0; id < topology.count() * per_chip; ++id) {
    Name(devices_.emplace_back(Identify(id, id / per_chip, id % per_chip, topology)));
  }
}

std::vector<int> Slice::chips() const {
  std::vector<int> chips;
  for (const auto& device : devices_)
    if (owns(device) && (chips.empty() || chips.back() != device.chip))
      chips.push_back(device.chip);
  return chips;
}

std::vector<int> Slice::cores() const {
  std::vector<int> cores;
  for (const auto& device : devices_)
    if (owns(device))
      cores.push_back(device.chip * generation().devices_per_chip + device.core_on_chip);
  return cores;
}

int Slice::cores_per_device() const {
  return generation().cores_per_chip / generation().devices_per_chip;
}

}  // namespace torus::tpu
