// The catalogue: generations, accelerator types, topologies, zones and runtime versions, as rows.
//
// Pure: no I/O. The built-in rows name their public source beside each figure (catalogue.cc). The
// service adds an operator's rows from TOML (catalogue_toml.h); libtpu.so reads the built-in ones
// only. Thread-safety: a Catalogue is immutable once built, so it may be shared freely.
#ifndef TORUS_HARDWARE_CATALOGUE_H_
#define TORUS_HARDWARE_CATALOGUE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace torus::hardware {

// Chips along each axis of the interconnect. A 2D generation's last axis is 1 and is not printed.
struct Topology {
  std::array<int, 3> chips{1, 1, 1};
  int dimensions = 3;  // 2 or 3

  int count() const { return chips[0] * chips[1] * chips[2]; }
  std::string ToString() const;  // "2x2" or "2x2x1"
  bool operator==(const Topology&) const = default;
};

// Reads "2x4" or "2x2x4". INVALID_ARGUMENT otherwise.
Result<Topology> ParseTopology(std::string_view text);

// A TPU generation. Sizes are bytes, rates are per second and per chip unless a name says
// otherwise.
struct Generation {
  std::string name;         // "v2", "v5e", as people say it
  std::string type_prefix;  // "v2", "v5litepod": what an accelerator type begins with
  std::string api_name;     // "V5LITE_POD": google.cloud.tpu.v2.AcceleratorConfig.Type; empty: none
  std::string device_kind;  // "TPU v5 lite": what PJRT's DeviceDescription.device_kind says
  int dimensions = 3;       // of its interconnect
  int cores_per_chip = 1;
  int devices_per_chip = 1;         // PJRT devices: 2 where each core is one, 1 with megacore
  bool type_counts_cores = true;    // "v4-8" is 8 cores, "v6e-8" is 8 chips
  int chips_per_host = 4;           // of a slice of several hosts
  int max_chips_on_one_host = 4;    // v5e and v6e have 8-chip single hosts
  int64_t hbm_bytes = 0;            // a chip's
  int64_t usable_hbm_bytes = 0;     // what XLA may use, a device's
  int64_t hbm_granule_bytes = 0;    // the smallest tile that an array in HBM is made of
  int64_t vector_memory_bytes = 0;  // a core's
  double peak_bf16_flops = 0;
  double hbm_bandwidth = 0;  // bytes per second
  // How its chips look on a host (host_devices.h): ids as sysfs prints them.
  std::string pci_device;
  std::string pci_subsystem;
  int pci_functions_per_chip = 1;
  bool has_accel_files = false;  // /dev/accelN; all have /dev/vfio/N
};

struct AcceleratorType {
  std::string name;                        // "v2-8"
  const Generation* generation = nullptr;  // owned by the catalogue
  Topology topology;                       // the default for that size
  std::vector<Topology> variants;          // other shapes of that size that may be asked for
  Topology host_topology;                  // the chips of one host
  int chips = 0;
  int cores = 0;
  int devices = 0;  // PJRT devices in the whole slice
  int hosts = 0;
};

struct Zone {
  std::string name;                            // "us-central1-a"
  std::vector<std::string> accelerator_types;  // offered there; every row names a known type
  std::vector<std::string> our_types;          // those of them that upstream does not offer there
  bool ours = false;  // a row upstream does not have, for a tutorial's or an operator's sake
};

struct RuntimeVersion {
  std::string name;  // "tpu-ubuntu2204-base", "tpu-vm-tf-2.13.0", "2.13.0"
  bool ours = false;
  std::string tensorflow;  // "2.13.0"; empty: it brings none
};

class Catalogue {
 public:
  // The rows that are built in. Made on the first call and never destroyed, so that libtpu.so
  // needs no exit handler.
  static const Catalogue& BuiltIn();

  Catalogue() = default;
  Catalogue(const Catalogue&) = delete;
  Catalogue& operator=(const Catalogue&) = delete;
  Catalogue(Catalogue&&) = default;
  Catalogue& operator=(Catalogue&&) = default;

  std::span<const Generation> generations() const { return generations_; }
  std::span<const AcceleratorType> accelerator_types() const { return types_; }
  std::span<const Zone> zones() const { return zones_; }
  std::span<const RuntimeVersion> runtime_versions() const { return runtime_versions_; }

  // Each returns nullptr where there is no such row. What they point to lives as long as the
  // catalogue, also when it is moved.
  const AcceleratorType* FindAcceleratorType(std::string_view name) const;
  const Generation* FindGeneration(std::string_view name_or_api_name) const;
  const Zone* FindZone(std::string_view name) const;
  const RuntimeVersion* FindRuntimeVersion(std::string_view name) const;
  // The type of `generation` with this topology (its default or a variant), any axis order;
  // nullptr if no slice has that shape.
  const AcceleratorType* FindByTopology(const Generation& generation,
                                        const Topology& topology) const;
  bool Offers(const Zone& zone, const AcceleratorType& type) const;

 private:
  friend class CatalogueBuilder;
  std::vector<Generation> generations_;
  std::vector<AcceleratorType> types_;
  std::vector<Zone> zones_;
  std::vector<RuntimeVersion> runtime_versions_;
};

// Makes a catalogue: the built-in rows and an operator's. Thread-safety: none; use from one thread.
class CatalogueBuilder {
 public:
  // Begins with the built-in rows.
  CatalogueBuilder();

  // Adds a zone with no offers, marked ours; nothing changes if it is there. INVALID_ARGUMENT if
  // the name is not lower-case letters, digits and dashes.
  Status AddZone(std::string_view name);
  // Offers `offer`, an accelerator type ("v2-8") or a whole generation ("v5e"), in a zone that is
  // there. NOT_FOUND if the zone or the offer is unknown; the message says what is valid.
  Status AddOffer(std::string_view zone, std::string_view offer);
  // Adds a runtime version, marked ours; nothing changes if it is there. INVALID_ARGUMENT if the
  // name is not letters, digits, dots, underscores and dashes.
  Status AddRuntimeVersion(std::string_view name);

  Catalogue Build() && { return std::move(catalogue_); }

 private:
  void AddType(const Generation& generation, const Topology& topology);
  Status Offer(std::string_view zone, std::string_view offer, bool ours);

  Catalogue catalogue_;
};

}  // namespace torus::hardware

#endif  // TORUS_HARDWARE_CATALOGUE_H_
