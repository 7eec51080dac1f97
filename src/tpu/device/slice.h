// Which slice this process shows, and what each of its devices says of itself.
//
// The slice comes from the worker's description (slice/description.h), or from the accelerator type
// in the environment, or is a v4-8. All devices of the slice are shown in this one process, in
// upstream's order: chips along x, then y, then z, the cores of a chip one after the other.
// Thread-safety: as std::string's.
#ifndef TORUS_TPU_DEVICE_SLICE_H_
#define TORUS_TPU_DEVICE_SLICE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "hardware/catalogue.h"

namespace torus::tpu {

// Where the slice is told; each is empty where nothing is told.
struct SliceSource {
  std::optional<std::string> description_file;  // TORUS_SLICE: must be there if named
  std::string default_file;                     // slice::kDescriptionPath: may be missing
  std::optional<std::string> accelerator_type;  // TPU_ACCELERATOR_TYPE
  // TPU_VISIBLE_CHIPS, or TPU_VISIBLE_DEVICES: the numbers of the chips to show, "0,2"
  std::optional<std::string> visible_chips;
  std::optional<std::string> process_bounds;  // TPU_CHIPS_PER_PROCESS_BOUNDS, "1,2,1"
  std::optional<std::string> processes;       // TPU_PROCESS_BOUNDS: the grid of processes, "2,4,1"
  bool shared = false;                        // ALLOW_MULTIPLE_LIBTPU_LOAD

  static SliceSource FromEnvironment();
};

struct DeviceIdentity {
  int id = 0;
  std::array<int64_t, 3> coords{};
  int core_on_chip = 0;
  std::string debug_string;  // "TPU_0(process=0,(0,0,0,0))"
  std::string to_string;     // "TpuDevice(id=0, process_index=0, coords=(0,0,0), core_on_chip=0)"
  std::string hbm_name;      // "0x0x0_HBM0", as out-of-memory errors name it
};

class Slice {
 public:
  // INVALID_ARGUMENT names the file or variable, its value and what is valid; UNIMPLEMENTED for a
  // slice that several processes share: its hosts', or those that TPU_PROCESS_BOUNDS asks for.
  static Result<Slice> Read(const SliceSource& source);

  // REQUIRES: `topology` has at most as many chips as `type`.
  Slice(const hardware::AcceleratorType& type, const hardware::Topology& topology,
        int64_t memory_limit_bytes);

  const std::string& accelerator_type() const { return type_->name; }
  const hardware::Generation& generation() const { return *type_->generation; }
  const std::vector<DeviceIdentity>& devices() const { return devices_; }
  // Cores that one device stands for: 2 with megacore.
  int cores_per_device() const;
  // Each chip shown, by its number in the whole slice.
  const std::vector<int>& chips() const { return chips_; }
  // What stands for these chips (chips_lock.h); empty where they are this process's alone, made for
  // it without a description that says whose they are.
  const std::string& lock_file() const { return lock_file_; }
  void set_lock_file(std::string path) { lock_file_ = std::move(path); }
  // Host memory that the VM may use; 0: the host's own.
  int64_t memory_limit_bytes() const { return memory_limit_bytes_; }

 private:
  const hardware::AcceleratorType* type_;
  std::vector<DeviceIdentity> devices_;
  std::vector<int> chips_;
  std::string lock_file_;
  int64_t memory_limit_bytes_;
};

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_SLICE_H_
