// What the software TPU knows of the engine's objects. Private to this folder.
//
// Everything hangs from one State, which is never destroyed: frameworks free buffers from exit
// handlers. A Client lives from PJRT_Client_Create to PJRT_Client_Destroy and owns its devices and
// memory spaces; the maps point to them. Thread-safety: the maps lock themselves; what they point
// to is immutable or atomic but where a comment says otherwise.
#ifndef TORUS_TPU_DEVICE_STATE_H_
#define TORUS_TPU_DEVICE_STATE_H_

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "slice/counters.h"
#include "tpu/device/compiler_identity.h"
#include "tpu/device/executables.h"
#include "tpu/device/hbm.h"
#include "tpu/device/host_memory.h"
#include "tpu/device/meetings.h"
#include "tpu/device/pointer_map.h"
#include "tpu/device/program_cache.h"
#include "tpu/device/replicas.h"
#include "tpu/device/slice.h"
#include "tpu/device/software_tpu.h"
#include "tpu/device/tiling.h"
#include "tpu/device/traced_runs.h"
#include "tpu/pjrt/engine.h"

namespace torus::tpu {

struct Client;

struct Device {
  Device(Client* client, PJRT_Device* handle, const DeviceIdentity* identity, const Slice& slice,
         slice::DeviceCounters& counters);
  Device(const Device&) = delete;

  Client* const client;
  PJRT_Device* const handle;
  const DeviceIdentity* const identity;  // the slice's
  std::vector<PJRT_NamedValue> attributes;
  slice::DeviceCounters& counters;  // on the client's page
  Hbm hbm;
  std::atomic<int64_t> launches = 0;  // collectives.h
};

// A memory that a device can address: its HBM, or host memory.
struct MemorySpace {
  Client* client = nullptr;
  Hbm* hbm = nullptr;  // null: host memory
};

// A page in the folder for the slice's devices; an empty folder: for nobody else to see.
std::unique_ptr<slice::CountersPage> MakeCounters(const Slice& slice, const std::string& folder);

struct Client {
  Client(PJRT_Client* handle, Slice slice, const HostMemory::Roots& roots,
         const std::string& counters_folder)
      : handle(handle),
        slice(std::move(slice)),
        counters(MakeCounters(this->slice, counters_folder)),
        tiling(this->slice.generation()),
        host(std::make_shared<HostMemory>(this->slice.memory_limit_bytes(), roots)) {}

  PJRT_Client* const handle;
  const Slice slice;
  // These two are shared with callbacks that may run after the client is gone.
  const std::shared_ptr<slice::CountersPage> counters;
  const Tiling tiling;
  std::string platform_version;
  const std::shared_ptr<HostMemory> host;
  std::deque<Device> devices;  // by id
  std::vector<PJRT_Device*> addressable;
  std::deque<MemorySpace> memories;
  bool replicas_alone = false;  // replicas.h
  std::shared_ptr<MeetingPlace> meetings;
};

// What a live buffer holds.
struct Buffer {
  Client* client = nullptr;
  Hbm* hbm = nullptr;    // null: host memory
  int64_t bytes = 0;     // of HBM
  int64_t promised = 0;  // of the host, until it goes: nothing says when they are written
};

// What a buffer takes: in the host's memory, where its elements lie close, and in tiles on a chip.
struct BufferSize {
  int64_t host = 0, hbm = 0;
};

// The outputs of a program on one device; they are the same in each run.
struct OutputPlan {
  struct Output {
    int64_t bytes = 0;
    bool in_hbm = false;
  };
  std::vector<Output> outputs;
  int64_t hbm_bytes = 0, hbm_count = 0, hbm_largest = 0;
};

// A loaded executable. What the engine does not tell beforehand is learned from the first run.
struct Program {
  ~Program() {
    delete plan.load();
    delete donated.load();
  }

  Client* client = nullptr;
  std::string name = "a program";
  // What it was loaded from; null: it was compiled. The engine tells another fingerprint of it, and
  // serializes it without its code.
  std::shared_ptr<const ProgramCache::Entry> loaded_from;
  std::vector<Device*> devices;        // it runs on these, in the order of its argument lists
  int64_t output_bytes = 0;            // a device's, less what it takes over from donated arguments
  int64_t temporary_bytes = 0;         // a device's, while it runs
  int64_t host_bytes = 0;              // what a device's run takes of the host
  int64_t traffic_bytes = 0;           // that a device's run moves in HBM
  bool is_tiny = false;                // it runs on its caller's thread (run_counter.h)
  std::shared_ptr<const Facts> facts;  // null where the engine does not show the program
  bool meets = false;                  // it has collectives (replicas.h)
  Mutex learning;                      // guards the making of what follows
  std::atomic<const OutputPlan*> plan = nullptr;
  std::atomic<const std::vector<size_t>*> donated = nullptr;  // arguments it takes over
  std::shared_ptr<const CompiledFrom> source;                 // null: it came serialized
  Mutex tracing;
  std::shared_ptr<const TracedSelf> traced TORUS_GUARDED_BY(tracing);  // null: not traced yet

  // New memory that one device needs for a run.
  int64_t run_bytes() const { return output_bytes + temporary_bytes; }
  // What an error of too little memory says beside upstream's words: see Advice::Text.
  std::string Advise(int64_t over) const {
    return facts ? facts->compiled.advice.Text(over) : std::string();
  }
};

// Buffers that are being filled piece by piece.
struct Transfer {
  MemorySpace place;
  Mutex mutex;
  std::vector<BufferSize> unclaimed TORUS_GUARDED_BY(mutex);  // each buffer's; 0 once retrieved
};

struct State {
  State(Result<const PJRT_Api*> api, SoftwareTpuOptions options)
      : engine(std::move(api)), options(std::move(options)) {}

  pjrt::Engine engine;
  const SoftwareTpuOptions options;
  ProgramCache program_cache{options.program_cache};
  const std::string environment = CompilerEnvironment();  // as the engine found it
  PointerMap<Client*> clients;                            // by PJRT_Client, owned
  PointerMap<Client*> topologies;                         // by PJRT_TopologyDescription
  PointerMap<Client*> own_topologies;           // those made without a client of the framework's
  PointerMap<PJRT_LoadedExecutable*> unloaded;  // by PJRT_Executable: what it was compiled as
  PointerMap<Device*> devices;                  // by PJRT_Device
  PointerMap<Device*> descriptions;             // by PJRT_DeviceDescription; a topology has its own
  PointerMap<MemorySpace> memories;             // by PJRT_Memory
  PointerMap<Buffer> buffers;                   // by PJRT_Buffer
  PointerMap<Program*> programs;                // by PJRT_LoadedExecutable, owned
  PointerMap<std::shared_ptr<const Facts>> executables;                // by PJRT_Executable
  PointerMap<std::shared_ptr<const ProgramCache::Entry>> loaded_from;  // by PJRT_Executable
  PointerMap<Transfer*> transfers;  // by PJRT_AsyncHostToDeviceTransferManager, owned
};

// The State of this process. REQUIRES: MakeSoftwareTpu was called.
State& state();

// Puts the functions of one file into the table.
void OverrideClientFunctions(pjrt::Table& table);
void OverrideBufferFunctions(pjrt::Table& table);
void OverrideTopologyFunctions(pjrt::Table& table);
void OverrideProgramFunctions(pjrt::Table& table);
void OverrideRunFunctions(pjrt::Table& table);

// Sets a function by its typed form. All PJRT functions have one machine-level signature.
template <typename Args>
void Override(pjrt::Table& table, pjrt::Slot slot, PJRT_Error* (*function)(Args*)) {
  table.functions[slot] = reinterpret_cast<pjrt::Function>(function);
}

// A client of the engine that shows the slice, and its counters in the folder, if one is named. The
// engine's error, or FAILED_PRECONDITION where it has other devices. DestroyClient ends it.
Result<Client*> MakeClient(State& s, Slice slice, const std::string& counters_folder);
Status DestroyClient(State& s, Client* client);

// The place that a function's `memory` (if not null) or `device` argument names.
std::optional<MemorySpace> FindPlace(const PJRT_Memory* memory, const PJRT_Device* device);

// Buffers.

// The size that a buffer would have in the place.
BufferSize SizeOfBuffer(const MemorySpace& place, PJRT_Buffer* buffer);
// Whether a buffer fits in the place, in HBM and on the host. `what` is for the error.
Status CheckPlace(const MemorySpace& place, const BufferSize& size, const char* what);
// Books a new buffer. From a host's size of HostMemory::kLookEvery on, its pages count as promised
// until it is ready, or, if nothing will say so, until it goes.
enum class Filled { kWhenReady, kNobodySays };
void BookBuffer(PJRT_Buffer* buffer, const MemorySpace& place, const BufferSize& size,
                Filled filled);
// Strikes a buffer that is deleted, destroyed or donated.
void StrikeBuffer(const PJRT_Buffer* buffer);
// Counts `bytes` as promised until `buffer` is ready.
void PromiseUntilReady(PJRT_Buffer* buffer, const std::shared_ptr<HostMemory>& host, int64_t bytes);

// Programs.

// The program of a loaded executable, read when it is first seen; null where it cannot be read.
// `client`: whose it is, where known; one for any device does not tell.
Program* FindProgram(State& s, PJRT_LoadedExecutable* loaded, Client* client = nullptr);
// PJRT_LoadedExecutable_Execute, with callbacks if the caller has any. `devices`: where each
// argument list runs.
PJRT_Error* ExecuteUntraced(State& s, const Program& program,
                            PJRT_LoadedExecutable_Execute_Args* args,
                            const std::vector<Device*>& devices);

// What a client's programs have of their own at the engine goes before the client.
void ReleasePrograms(const Client* client);
// Forget a client's objects when it goes.
void ForgetPrograms(const Client* client);
PJRT_Error* LoadedExecutableDestroy(PJRT_LoadedExecutable_Destroy_Args* args);
void ForgetBuffers(const Client* client);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_STATE_H_
