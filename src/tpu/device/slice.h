// Which slice this process shows, and what each of its devices says of itself.
//
// The slice comes from the worker's description (slice/description.h), or from the accelerator type
// in the environment, or is a v4-8. All devices of the slice are shown, in upstream's order: chips
// along x, then y, then z, the cores of a chip one after the other. They are this one process's, or
// those of a block of chips (or of one core) are, where the framework started several processes.
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
  std::optional<std::string> task;            // CLOUD_TPU_TASK_ID: which of them this one is
  std::optional<std::string> addresses;       // TPU_PROCESS_ADDRESSES: "localhost:8476,…"
  bool shared = false;                        // ALLOW_MULTIPLE_LIBTPU_LOAD
  // Whether who asks can be one of several processes (replicas.h).
  bool can_be_one_of_several = false;

  static SliceSource FromEnvironment();
};

struct DeviceIdentity {
  int id = 0;
  int chip = 0;     // its number in the whole slice
  int process = 0;  // whose it is
  std::array<int64_t, 3> coords{};
  int core_on_chip = 0;
  std::string debug_string;  // "TPU_0(process=0,(0,0,0,0))"
  std::string to_string;     // "TpuDevice(id=0, process_index=0, coords=(0,0,0), core_on_chip=0)"
  std::string hbm_name;      // "0x0x0_HBM0", as out-of-memory errors name it
};

// The processes that share the slice.
struct Processes {
  int count = 1;
  int own = 0;
  std::string address;  // where process 0 is to be met; a name that all of them have
};

class Slice {
 public:
  // INVALID_ARGUMENT names the file or variable, its value and what is valid; UNIMPLEMENTED for a
  // slice of several hosts, or of several processes where who asks cannot be one of them.
  static Result<Slice> Read(const SliceSource& source);

  // REQUIRES: `topology` has at most as many chips as `type`.
  Slice(const hardware::AcceleratorType& type, const hardware::Topology& topology,
        int64_t memory_limit_bytes);

  const std::string& accelerator_type() const { return type_->name; }
  const hardware::Generation& generation() const { return *type_->generation; }
  const std::vector<DeviceIdentity>& devices() const { return devices_; }
  // Cores that one device stands for: 2 with megacore.
  int cores_per_device() const;
  const Processes& processes() const { return processes_; }
  bool owns(const DeviceIdentity& device) const { return device.process == processes_.own; }
  // The chips of which this process has a device, by their numbers in the whole slice.
  std::vector<int> chips() const;
  // This process's devices, by theirs: a number for each of a chip, whether it is shown or not.
  std::vector<int> cores() const;
  // What stands for these chips (chips_lock.h); empty where they are this process's alone, made for
  // it without a description that says whose they are.
  const std::string& lock_file() const { return lock_file_; }
  void set_lock_file(std::string path) { lock_file_ = std::move(path); }
  // Host memory that the VM may use; 0: the host's own.
  int64_t memory_limit_bytes() const { return memory_limit_bytes_; }

 private:
  Status ShowChips(const SliceSource& source);
  Status ShareOut(const SliceSource& source, const std::vector<int>& grid);

  const hardware::AcceleratorType* type_;
  hardware::Topology topology_;
  Processes processes_;
  std::vector<DeviceIdentity> devices_;
  std::string lock_file_;
  int64_t memory_limit_bytes_;
};

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_SLICE_H_
