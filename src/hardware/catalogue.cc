// The built-in rows and how a catalogue is made of them.
//
// Sources, each under https://cloud.google.com/tpu/docs/ unless it says otherwise:
//   [v2] v2   [v3] v3   [v4] v4   [v5e] v5e   [v5p] v5p   [v6e] v6e   [tpu7x] tpu7x
//   [zones] regions-zones   [runtimes] runtimes   [topologies] types-topologies
//   [shapes] github.com/AI-Hypercomputer/xpk, src/xpk/core/system_characteristics.py: the shape of
//            every size, as Google Kubernetes Engine offers them
//   [pci] github.com/AI-Hypercomputer/cloud-accelerator-diagnostics, tpu_info/device.py: ids, and
//         which device files a generation has
//   [libtpu] what Google's libtpu 0.0.52 gives a compiled program, measured without a TPU
#include "hardware/catalogue.h"

#include <algorithm>
#include <charconv>

namespace torus::hardware {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// A size that the compiler's messages print in hundredths of a GiB ("15.75G").
constexpr int64_t HundredthsOfGiB(int64_t hundredths) { return hundredths * kGiB / 100; }

struct GenerationRow {
  std::string_view name, type_prefix, api_name, device_kind;
  int dimensions, cores_per_chip, devices_per_chip;
  bool type_counts_cores;
  int chips_per_host, max_chips_on_one_host;
  int64_t hbm_bytes, usable_hbm_bytes, hbm_granule_bytes, vector_memory_bytes;
  double peak_bf16_flops, hbm_bandwidth;
  std::string_view pci_device, pci_subsystem;
  int pci_functions_per_chip;
  bool has_accel_files;
};

// Every `usable_hbm_bytes` and `hbm_granule_bytes` is from [libtpu], every PCI id from [pci], every
// `vector_memory_bytes` from JAX 0.10.2 (pallas/mosaic/tpu_info.py). The
// subsystem tells v2 and v3 apart; the others' is not told.
constexpr GenerationRow kGenerations[] = {
    // [v2]: 2 cores, 45 TFLOP/s, 16 GiB, 700 GB/s, 2D torus, 256 chips.
    {"v2", "v2",      "V2",       "TPU v2",    2,         2,
     2,    true,      4,          4,           16 * kGiB, HundredthsOfGiB(748),
     1024, 16 * kMiB, 45 * kTera, 700 * kGiga, "0x0027",  "0x004e",
     1,    true},
    // [v3]: 2 cores, 123 TFLOP/s, 32 GiB, 900 GB/s, 2D torus, 1024 chips.
    {"v3", "v3",      "V3",        "TPU v3",    2,         2,
     2,    true,      4,           4,           32 * kGiB, HundredthsOfGiB(1548),
     1024, 16 * kMiB, 123 * kTera, 900 * kGiga, "0x0027",  "0x004f",
     1,    true},
    // [v4]: 2 cores (one device: megacore), 275 TFLOP/s, 32 GiB, 1200 GB/s, 3D, 4096 chips.
    {"v4",     "v4",      "V4",        "TPU v4",
     3,        2,         1,           true,
     4,        4,         32 * kGiB,   HundredthsOfGiB(3075),
     512,      16 * kMiB, 275 * kTera, 1200 * kGiga,
     "0x005e", "0x0000",  1,           true},
    // [v5e]: 1 core, 197 TFLOP/s, 16 GB, 819 GB/s, 2D torus, 256 chips, hosts of 1, 4 and 8 chips.
    {"v5e",
     "v5litepod",
     "V5LITE_POD",
     "TPU v5 lite",
     2,
     1,
     1,
     false,
     4,
     8,
     16 * kGiB,
     HundredthsOfGiB(1575),
     512,
     128 * kMiB,
     197 * kTera,
     819 * kGiga,
     "0x0063",
     "0x0000",
     1,
     false},
    // [v5p]: 2 cores (one device), 459 TFLOP/s, 2765 GB/s, 3D torus. The page's table says 95 GiB
    // and its note that a chip has 96 GiB, of which the system keeps some.
    {"v5p",    "v5p",     "V5P",       "TPU v5",
     3,        2,         1,           true,
     4,        4,         96 * kGiB,   HundredthsOfGiB(9573),
     512,      64 * kMiB, 459 * kTera, 2765 * kGiga,
     "0x0062", "0x0000",  1,           false},
    // [v6e]: 1 core, 918 TFLOP/s, 32 GB, 1638 GB/s, 2D torus, 256 chips, hosts of 1, 4 and 8 chips.
    {"v6e",    "v6e",      "V6E",       "TPU v6 lite",
     2,        1,          1,           false,
     4,        8,          32 * kGiB,   HundredthsOfGiB(3124),
     512,      128 * kMiB, 918 * kTera, 1638 * kGiga,
     "0x006f", "0x0000",   1,           false},
    // [tpu7x]: 2 cores, each a device, 2307 TFLOP/s, 192 GiB, 7380 GB/s, 3D torus, 9216 chips.
    // Upstream has it in Compute Engine only, so the Cloud TPU API has no name for it.
    {"tpu7x",
     "tpu7x",
     "",
     "TPU7x",
     3,
     2,
     2,
     true,
     4,
     4,
     192 * kGiB,
     HundredthsOfGiB(9474),
     512,
     64 * kMiB,
     2307 * kTera,
     7380 * kGiga,
     "0x0076",
     "0x0000",
     2,
     false},
};

struct ShapeRow {
  std::string_view generation;
  std::string_view topologies;  // separated by spaces; one a size, by size
};

// The default shape of every size.
constexpr ShapeRow kShapes[] = {
    // [v2] and [v3]: v2-8 to v2-512, v3-8 to v3-2048.
    {"v2", "2x2 4x4 8x8 8x16 16x16"},
    {"v3", "2x2 4x4 4x8 8x8 8x16 16x16 16x32 32x32"},
    // [v4], [topologies]: v4-8 to v4-8192, the whole pod of 4096 chips.
    {"v4",
     "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x12 4x8x8 4x8x12 8x8x8 8x8x12 8x8x16 8x12x16 8x16x16 "
     "12x16x16 16x16x16"},
    // [v5e], [v6e]: 1 to 256 chips.
    {"v5e", "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16"},
    {"v6e", "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16"},
    // [v5p]: v5p-8 to v5p-12288, the largest job of 6144 chips; the sizes between from [shapes].
    {"v5p",
     "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x12 4x8x8 4x4x20 4x8x12 4x4x28 8x8x8 4x12x12 4x8x20 "
     "4x4x44 8x8x12 4x4x52 4x8x28 4x12x20 8x8x16 4x4x68 8x12x12 4x4x76 8x8x20 4x12x28 4x8x44 "
     "4x4x92 8x12x16 4x20x20 4x8x52 12x12x12 8x8x28 4x4x116 8x12x20 4x4x124 8x16x16 4x12x44 "
     "4x8x68 4x20x28 12x12x16 4x4x148 4x8x76 4x12x52 8x16x20 4x4x164 8x12x28 4x4x172 8x8x44 "
     "12x12x20 4x8x92 4x4x188 12x16x16 4x28x28 8x20x20 4x12x68 8x8x52 4x4x212 12x12x24 4x20x44 "
     "8x16x28 4x12x76 4x8x116 4x4x236 12x16x20 4x4x244 4x8x124 12x12x28 16x16x16 4x20x52 8x12x44 "
     "8x8x68 4x12x92 8x20x28 12x16x24 4x8x148 12x20x20 8x8x76 4x28x44 8x12x52 16x16x20 12x12x36 "
     "4x8x164 12x16x28 4x20x68 4x8x172 4x12x116 8x16x44 12x20x24 4x28x52 8x8x92 4x12x124 4x8x188 "
     "4x20x76 16x16x24"},
    // [tpu7x]: tpu7x-2 (one chip) to tpu7x-18432 (9216 chips); the sizes between from [shapes].
    {"tpu7x",
     "1x1x1 2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x12 4x8x8 4x4x20 4x8x12 4x4x28 8x8x8 4x12x12 "
     "4x8x20 4x4x44 8x8x12 4x4x52 4x8x28 4x12x20 8x8x16 4x4x68 8x12x12 4x4x76 8x8x20 4x12x28 "
     "4x8x44 4x4x92 8x12x16 4x20x20 4x8x52 12x12x12 8x8x28 4x4x116 8x12x20 4x4x124 8x16x16 "
     "4x12x44 4x8x68 4x20x28 12x12x16 4x4x148 4x8x76 4x12x52 8x16x20 4x4x164 8x12x28 4x4x172 "
     "8x8x44 12x12x20 4x8x92 4x4x188 12x16x16 4x28x28 8x20x20 4x12x68 8x8x52 4x4x212 12x12x24 "
     "4x20x44 8x16x28 4x12x76 4x8x116 4x4x236 12x16x20 4x4x244 4x8x124 12x12x28 16x16x16 4x20x52 "
     "8x12x44 8x8x68 4x12x92 8x20x28 12x16x24 4x8x148 12x20x20 8x8x76 4x28x44 8x12x52 16x16x20 "
     "12x12x36 4x8x164 12x16x28 4x20x68 4x8x172 4x12x116 8x16x44 12x20x24 4x28x52 8x8x92 4x12x124 "
     "4x8x188 4x20x76 16x16x24 12x24x24 16x16x32 16x20x28 16x24x24"},
};

// Other shapes of a size above. [topologies]: v4's variants.
constexpr ShapeRow kVariants[] = {
    {"v4", "4x4x16 4x8x16 4x4x32 4x8x24 4x16x16"},
};

struct OfferRow {
  std::string_view zone;
  std::string_view offer;  // a type or a whole generation
  bool ours = false;
};

constexpr bool kOurs = true;

// [zones], and what it offered before where tutorials still say so.
constexpr OfferRow kOffers[] = {
    {"asia-east1-c", "v2-8"},
    {"asia-northeast1-b", "v6e"},
    {"asia-southeast1-b", "v5e"},
    {"europe-west4-a", "v2"},
    {"europe-west4-a", "v3"},
    {"europe-west4-a", "v5e"},
    {"europe-west4-a", "v6e"},
    {"europe-west4-b", "v5e"},
    {"europe-west4-b", "v5p"},
    {"southamerica-west1-a", "v6e"},
    {"us-central1-a", "v2-32"},
    {"us-central1-a", "v2-128"},
    {"us-central1-a", "v2-256"},
    {"us-central1-a", "v2-512"},
    {"us-central1-a", "v3-8"},
    {"us-central1-a", "v5e"},
    {"us-central1-a", "v5p"},
    {"us-central1-a", "v2-8", kOurs},  // where the tutorials make it
    {"us-central1-b", "v2-8"},
    {"us-central1-b", "v3-8"},
    {"us-central1-b", "v6e"},
    {"us-central1-c", "v2-8"},
    {"us-central1-c", "tpu7x", kOurs},  // upstream: there, but through Compute Engine
    {"us-central1-f", "v2-8"},
    {"us-central1-f", "v3-8"},
    {"us-central2-b", "v4"},
    {"us-east1-d", "v6e"},
    {"us-east5-a", "v5p"},
    {"us-east5-a", "v6e"},
    {"us-east5-b", "v6e"},
    {"us-south1-a", "v5e"},
    {"us-west1-c", "v5e"},
    {"us-west4-a", "v5e"},
};

struct RuntimeRow {
  std::string_view name;
  bool ours = false;
};

// [runtimes], the versions for JAX and PyTorch and those before them.
constexpr RuntimeRow kRuntimes[] = {
    {"tpu-ubuntu2204-base"}, {"tpu-vm-base"},     {"tpu-vm-v4-base"}, {"tpu-vm-pt-1.12"},
    {"tpu-vm-pt-1.13"},      {"tpu-vm-pt-2.0"},   {"v2-alpha"},       {"v2-alpha-tpuv5"},
    {"v2-alpha-tpuv5-lite"}, {"v2-alpha-tpuv6e"},
};

// How a TensorFlow version becomes the names of runtime versions.
struct TensorFlowForm {
  std::string_view prefix, suffix;
  bool ours = false;
};

// [runtimes]: until 2.14 a version had one runtime; from 2.15 its name says which. "ours" is what
// the convention allows or a tutorial says and upstream's list does not have.
constexpr TensorFlowForm kOneRuntime[] = {
    {"tpu-vm-tf-", ""},
    {"tpu-vm-tf-", "-pod"},
    {"tpu-vm-tf-", "-pjrt", kOurs},
    {"tpu-vm-tf-", "-pod-pjrt", kOurs},
    {"", "", kOurs},
};
constexpr TensorFlowForm kTwoRuntimes[] = {
    {"tpu-vm-tf-", "-pjrt"},   {"tpu-vm-tf-", "-pod-pjrt"}, {"tpu-vm-tf-", "-se"},
    {"tpu-vm-tf-", "-pod-se"}, {"tpu-vm-tf-", "", kOurs},   {"tpu-vm-tf-", "-pod", kOurs},
    {"", "", kOurs},
};
// Since upstream's last.
constexpr TensorFlowForm kNoRuntime[] = {{"tpu-vm-tf-", "", kOurs}, {"", "", kOurs}};

struct TensorFlowRow {
  std::string_view version;
  std::span<const TensorFlowForm> forms;
};

constexpr TensorFlowRow kTensorFlow[] = {
    {"2.7.3", kOneRuntime},   {"2.7.4", kOneRuntime},   {"2.8.0", kOneRuntime},
    {"2.8.3", kOneRuntime},   {"2.8.4", kOneRuntime},   {"2.9.1", kOneRuntime},
    {"2.9.3", kOneRuntime},   {"2.10.0", kOneRuntime},  {"2.10.1", kOneRuntime},
    {"2.11.0", kOneRuntime},  {"2.11.1", kOneRuntime},  {"2.12.0", kOneRuntime},
    {"2.12.1", kOneRuntime},  {"2.13.0", kOneRuntime},  {"2.13.1", kOneRuntime},
    {"2.14.0", kOneRuntime},  {"2.14.1", kOneRuntime},  {"2.15.0", kTwoRuntimes},
    {"2.15.1", kTwoRuntimes}, {"2.16.1", kTwoRuntimes}, {"2.16.2", kTwoRuntimes},
    {"2.17.0", kTwoRuntimes}, {"2.17.1", kTwoRuntimes}, {"2.18.0", kTwoRuntimes},
    {"2.18.1", kTwoRuntimes}, {"2.19.0", kTwoRuntimes}, {"2.19.1", kTwoRuntimes},
    {"2.20.0", kNoRuntime},   {"2.21.0", kNoRuntime},
};

// The row of `rows` with this name, or nullptr.
template <typename Rows>
auto FindByName(Rows& rows, std::string_view name) {
  auto row = std::ranges::find_if(rows, [&](const auto& each) { return each.name == name; });
  return row == std::ranges::end(rows) ? nullptr : &*row;
}

// Calls `visit` with each topology of a row's list.
template <typename Visitor>
void ForEachTopology(std::string_view list, Visitor visit) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    visit(*ParseTopology(list.substr(0, end)));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

std::array<int, 3> Sorted(const Topology& topology) {
  std::array<int, 3> chips = topology.chips;
  std::ranges::sort(chips);
  return chips;
}

bool Contains(std::span<const std::string> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// The names of `rows`, for an error message.
template <typename Rows>
std::string Names(const Rows& rows) {
  std::string names;
  for (const auto& row : rows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

Generation FromRow(const GenerationRow& row) {
  return {.name = std::string(row.name),
          .type_prefix = std::string(row.type_prefix),
          .api_name = std::string(row.api_name),
          .device_kind = std::string(row.device_kind),
          .dimensions = row.dimensions,
          .cores_per_chip = row.cores_per_chip,
          .devices_per_chip = row.devices_per_chip,
          .type_counts_cores = row.type_counts_cores,
          .chips_per_host = row.chips_per_host,
          .max_chips_on_one_host = row.max_chips_on_one_host,
          .hbm_bytes = row.hbm_bytes,
          .usable_hbm_bytes = row.usable_hbm_bytes,
          .hbm_granule_bytes = row.hbm_granule_bytes,
          .vector_memory_bytes = row.vector_memory_bytes,
          .peak_bf16_flops = row.peak_bf16_flops,
          .hbm_bandwidth = row.hbm_bandwidth,
          .pci_device = std::string(row.pci_device),
          .pci_subsystem = std::string(row.pci_subsystem),
          .pci_functions_per_chip = row.pci_functions_per_chip,
          .has_accel_files = row.has_accel_files};
}

}  // namespace

std::string Topology::ToString() const {
  return dimensions == 2 ? fmt::format("{}x{}", chips[0], chips[1])
                         : fmt::format("{}x{}x{}", chips[0], chips[1], chips[2]);
}

Result<Topology> ParseTopology(std::string_view text) {
  constexpr int kMaxChipsOnAnAxis = 1 << 16;
  Topology topology;
  topology.dimensions = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (topology.dimensions < 3) {
    int chips = 0;
    const auto [next, error] = std::from_chars(at, end, chips);
    if (error != std::errc() || chips < 1 || chips > kMaxChipsOnAnAxis || *at == '0') break;
    topology.chips[topology.dimensions++] = chips;
    if (next == end && topology.dimensions >= 2) return topology;
    if (next == end || *next != 'x') break;
    at = next + 1;
  }
  return InvalidArgument(
      "\"{}\" is not a topology: give the chips along each axis, such as 2x4 or 2x2x4", text);
}

const Catalogue& Catalogue::BuiltIn() {
  static const Catalogue* const built_in = new Catalogue(CatalogueBuilder().Build());
  return *built_in;
}

const AcceleratorType* Catalogue::FindAcceleratorType(std::string_view name) const {
  return FindByName(types_, name);
}

const Generation* Catalogue::FindGeneration(std::string_view name) const {
  if (name.empty()) return nullptr;
  for (const Generation& generation : generations_) {
    if (generation.name == name || generation.api_name == name) return &generation;
  }
  return nullptr;
}

const Zone* Catalogue::FindZone(std::string_view name) const { return FindByName(zones_, name); }

const RuntimeVersion* Catalogue::FindRuntimeVersion(std::string_view name) const {
  return FindByName(runtime_versions_, name);
}

const AcceleratorType* Catalogue::FindByTopology(const Generation& generation,
                                                 const Topology& topology) const {
  if (topology.dimensions != generation.dimensions) return nullptr;
  const auto wanted = Sorted(topology);
  for (const AcceleratorType& type : types_) {
    if (type.generation->name != generation.name) continue;
    if (Sorted(type.topology) == wanted) return &type;
    for (const Topology& variant : type.variants) {
      if (Sorted(variant) == wanted) return &type;
    }
  }
  return nullptr;
}

bool Catalogue::Offers(const Zone& zone, const AcceleratorType& type) const {
  return Contains(zone.accelerator_types, type.name);
}

CatalogueBuilder::CatalogueBuilder() {
  // The types point into generations_, which therefore has all its rows before the first type.
  for (const GenerationRow& row : kGenerations) catalogue_.generations_.push_back(FromRow(row));
  for (const ShapeRow& row : kShapes) {
    const Generation* generation = catalogue_.FindGeneration(row.generation);
    ForEachTopology(row.topologies, [&](const Topology& each) { AddType(*generation, each); });
  }
  for (const ShapeRow& row : kVariants) {
    ForEachTopology(row.topologies, [&](const Topology& variant) {
      for (AcceleratorType& type : catalogue_.types_) {
        if (type.generation->name == row.generation && type.chips == variant.count())
          type.variants.push_back(variant);
      }
    });
  }
  for (const OfferRow& row : kOffers) {
    if (!FindByName(catalogue_.zones_, row.zone))
      catalogue_.zones_.push_back({.name = std::string(row.zone)});
    (void)Offer(row.zone, row.offer, row.ours);
  }
  for (const RuntimeRow& row : kRuntimes)
    catalogue_.runtime_versions_.push_back({.name = std::string(row.name), .ours = row.ours});
  for (const TensorFlowRow& row : kTensorFlow) {
    for (const TensorFlowForm& form : row.forms) {
      catalogue_.runtime_versions_.push_back(
          {.name = fmt::format("{}{}{}", form.prefix, row.version, form.suffix),
           .ours = form.ours,
           .tensorflow = std::string(row.version)});
    }
  }
}

void CatalogueBuilder::AddType(const Generation& generation, const Topology& topology) {
  const int chips = topology.count();
  const int cores = chips * generation.cores_per_chip;
  const bool one_host = chips <= generation.max_chips_on_one_host;
  Topology host = topology;
  if (!one_host) host.chips = {2, generation.chips_per_host / 2, 1};
  catalogue_.types_.push_back({.name = fmt::format("{}-{}", generation.type_prefix,
                                                   generation.type_counts_cores ? cores : chips),
                               .generation = &generation,
                               .topology = topology,
                               .host_topology = host,
                               .chips = chips,
                               .cores = cores,
                               .devices = chips * generation.devices_per_chip,
                               .hosts = one_host ? 1 : chips / generation.chips_per_host});
}

Status CatalogueBuilder::Offer(std::string_view zone_name, std::string_view offer, bool ours) {
  Zone* zone = FindByName(catalogue_.zones_, zone_name);
  if (!zone) return NotFound("no zone \"{}\"; there are {}", zone_name, Names(catalogue_.zones_));
  bool known = false;
  for (const AcceleratorType& type : catalogue_.types_) {
    if (type.name != offer && type.generation->name != offer) continue;
    known = true;
    if (Contains(zone->accelerator_types, type.name)) continue;
    zone->accelerator_types.push_back(type.name);
    if (ours) zone->our_types.push_back(type.name);
  }
  if (known) return {};
  return NotFound(
      "no accelerator type or generation \"{}\"; give a generation ({}) or one of its types, such "
      "as v2-8",
      offer, Names(catalogue_.generations_));
}

Status CatalogueBuilder::AddZone(std::string_view name) {
  const bool valid = !name.empty() && std::ranges::all_of(name, [](char c) {
    return IsLowerOrDigit(c) || c == '-';
  });
  if (!valid) {
    return InvalidArgument(
        "\"{}\" is not a zone's name: use lower-case letters, digits and dashes, such as "
        "lab-north1-a",
        name);
  }
  if (FindByName(catalogue_.zones_, name)) return {};
  Zone zone{.name = std::string(name), .ours = true};
  const auto place = std::ranges::upper_bound(catalogue_.zones_, zone.name, {}, &Zone::name);
  catalogue_.zones_.insert(place, std::move(zone));
  return {};
}

Status CatalogueBuilder::AddOffer(std::string_view zone, std::string_view offer) {
  return Offer(zone, offer, kOurs);
}

Status CatalogueBuilder::AddRuntimeVersion(std::string_view name) {
  const bool valid = !name.empty() && std::ranges::all_of(name, [](char c) {
    return IsLowerOrDigit(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
  });
  if (!valid) {
    return InvalidArgument(
        "\"{}\" is not a runtime version's name: use letters, digits, dots, dashes and "
        "underscores, such as tpu-vm-tf-2.13.0",
        name);
  }
  if (!FindByName(catalogue_.runtime_versions_, name))
    catalogue_.runtime_versions_.push_back({.name = std::string(name), .ours = kOurs});
  return {};
}

}  // namespace torus::hardware
