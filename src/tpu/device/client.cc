// Clients, devices and what they say of themselves.
#include <fmt/chrono.h>

#include <algorithm>

#include "hardware/host_devices.h"
#include "tpu/device/chips_lock.h"
#include "tpu/device/framework.h"
#include "tpu/device/kernels.h"
#include "tpu/device/peers.h"
#include "tpu/device/state.h"

namespace torus::tpu {
namespace {

using pjrt::Ample;
using pjrt::MakeArgs;
using pjrt::NewError;

// ---- Plugin

PJRT_Error* PluginInitialize(PJRT_Plugin_Initialize_Args* args) {
  State& s = state();
  if (PJRT_Error* error = s.engine.Call(pjrt::kPlugin_Initialize, args)) return error;
  // A wrong slice is said as early as there is a way to say it.
  auto source = s.options.slice_source();
  source.can_be_one_of_several = true;  // who asks is known later
  const auto slice = Slice::Read(source);
  return slice ? nullptr : NewError(slice.error());
}

PJRT_Error* PluginAttributes(PJRT_Plugin_Attributes_Args* args) {
  State& s = state();
  // Not the caller's: jaxlib 0.6 says it has no room for their number, but reads it.
  auto engines = MakeArgs<PJRT_Plugin_Attributes_Args>();
  if (PJRT_Error* error = s.engine.Call(pjrt::kPlugin_Attributes, &engines)) return error;
  // Attributes live as long as the process; the engine's are the same each time.
  static const auto& attributes = *new std::vector<PJRT_NamedValue>([&] {
    std::vector<PJRT_NamedValue> all(engines.attributes,
                                     engines.attributes + engines.num_attributes);
    all.push_back(pjrt::NamedString("torus_version", s.options.version));
    return all;
  }());
  args->attributes = attributes.data();
  args->num_attributes = attributes.size();
  return nullptr;
}

// ---- Making and destroying a client

// "Nov 30 2026 00:00:00 (1796000000)": jax reads the number in the only brackets of the last line.
std::string PlatformVersion(const State& s, const Slice& slice, std::string_view engine_version) {
  const time_t released = s.options.release_epoch;
  const auto date = fmt::format("{:%b %d %Y %H:%M:%S}", fmt::gmtime(released));
  const auto& api = s.engine.api()->pjrt_api_version;
  return fmt::format(
      "Torus {}: a software TPU on PJRT {}.{} engine {}\nTFRT {}\nBuilt on {} ({}) cl/0",
      s.options.version, api.major_version, api.minor_version, engine_version,
      slice.generation().device_kind, date, released);
}

std::string EngineVersion(State& s, PJRT_Client* client) {
  auto name = MakeArgs<PJRT_Client_PlatformName_Args>();
  auto version = MakeArgs<PJRT_Client_PlatformVersion_Args>();
  name.client = version.client = client;
  if (!s.engine.Take(s.engine.Call(pjrt::kClient_PlatformName, &name)).ok() ||
      !s.engine.Take(s.engine.Call(pjrt::kClient_PlatformVersion, &version)).ok()) {
    return "unknown";
  }
  std::string text(name.platform_name, name.platform_name_size);
  text.append(" ").append(version.platform_version, version.platform_version_size);
  // One line, and no brackets: both would confuse readers of the lines that follow.
  std::erase_if(text, [](char c) { return c == '(' || c == ')'; });
  std::ranges::replace(text, '\n', ' ');
  return text;
}

Status FindDescription(State& s, Device& device) {
  auto args = MakeArgs<PJRT_Device_GetDescription_Args>();
  args.device = device.handle;
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kDevice_GetDescription, &args)));
  s.descriptions.Insert(args.device_description, &device);
  return Status();
}

bool IsHostKind(State& s, PJRT_Memory* memory) {
  auto args = MakeArgs<PJRT_Memory_Kind_Args>();
  args.memory = memory;
  if (!s.engine.Take(s.engine.Call(pjrt::kMemory_Kind, &args)).ok()) return false;
  return std::string_view(args.kind, args.kind_size).ends_with("_host");
}

Status FindMemories(State& s, Device& device) {
  auto args = MakeArgs<PJRT_Device_AddressableMemories_Args>();
  args.device = device.handle;
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kDevice_AddressableMemories, &args)));
  for (size_t i = 0; i < args.num_memories; ++i) {
    Hbm* hbm = IsHostKind(s, args.memories[i]) ? nullptr : &device.hbm;
    s.memories.Insert(args.memories[i], {device.client, hbm});
  }
  return Status();
}

Result<int> IdOf(State& s, PJRT_DeviceDescription* description) {
  auto args = MakeArgs<PJRT_DeviceDescription_Id_Args>();
  args.device_description = description;
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kDeviceDescription_Id, &args)));
  return args.id;
}

// The topology has descriptions of its own. An engine may have no topology.
void FindTopology(State& s, Client& client) {
  auto topology = MakeArgs<PJRT_Client_TopologyDescription_Args>();
  topology.client = client.handle;
  if (!s.engine.Take(s.engine.Call(pjrt::kClient_TopologyDescription, &topology)).ok()) return;
  s.topologies.Insert(topology.topology, &client);
  auto args = MakeArgs<PJRT_TopologyDescription_GetDeviceDescriptions_Args>();
  args.topology = topology.topology;
  const auto slot = pjrt::kTopologyDescription_GetDeviceDescriptions;
  if (!s.engine.Take(s.engine.Call(slot, &args)).ok()) return;
  for (size_t i = 0; i < args.num_descriptions; ++i) {
    const auto id = IdOf(s, args.descriptions[i]);
    if (!id || *id < 0 || static_cast<size_t>(*id) >= client.devices.size()) continue;
    s.descriptions.Insert(args.descriptions[i], &client.devices[*id]);
  }
}

// Of devices that are other processes': they count them.
slice::DeviceCounters& CountersOfOthers() {
  static auto& counters = *new slice::DeviceCounters;
  return counters;
}

// Learns the client's devices from the engine. They are the slice's, in the slice's order.
Status FindDevices(State& s, Client& client) {
  auto args = MakeArgs<PJRT_Client_Devices_Args>();
  args.client = client.handle;
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kClient_Devices, &args)));
  const auto& identities = client.slice.devices();
  if (args.num_devices != identities.size()) {
    return FailedPrecondition(
        "The engine made {} devices where a {} has {}; it does not know the option "
        "cpu_device_count. TORUS_ENGINE names another engine.",
        args.num_devices, client.slice.accelerator_type(), identities.size());
  }
  size_t owned = 0;
  for (size_t i = 0; i < args.num_devices; ++i) {
    const bool owns = client.slice.owns(identities[i]);
    auto& counters = owns ? client.counters->device(owned++) : CountersOfOthers();
    Device& device = client.devices.emplace_back(&client, args.devices[i], &identities[i],
                                                 client.slice, counters);
    if (owns) client.addressable.push_back(device.handle);
    s.devices.Insert(device.handle, &device);
    TORUS_RETURN_IF_ERROR(FindDescription(s, device));
    TORUS_RETURN_IF_ERROR(FindMemories(s, device));
  }
  FindTopology(s, client);
  return Status();
}

void Forget(State& s, const Client* client) {
  ForgetPrograms(client);
  ForgetBuffers(client);
  s.memories.EraseIf([client](const MemorySpace& memory) { return memory.client == client; });
  const auto of_client = [client](const Device* device) { return device->client == client; };
  s.devices.EraseIf(of_client);
  s.descriptions.EraseIf(of_client);
  s.topologies.EraseIf([client](const Client* other) { return other == client; });
}

PJRT_Error* ClientDestroy(PJRT_Client_Destroy_Args* args) {
  State& s = state();
  const auto client = s.clients.Take(args->client);
  if (client) ReleasePrograms(*client);
  ForgetFramework(args->client);
  PJRT_Error* error = s.engine.Call(pjrt::kClient_Destroy, args);
  if (client) {
    Forget(s, *client);
    delete *client;
  }
  return error;
}

// What stands for the process's chips in a TPU VM; a core's own file where it is one.
std::vector<std::string> DeviceFilesOf(const Slice& slice) {
  std::vector<std::string> files;
  for (const auto& device : slice.devices()) {
    if (!slice.owns(device)) continue;
    const auto names = hardware::DeviceFiles(slice.generation(), device.chip);
    const bool core_has_own = slice.generation().pci_functions_per_chip > 1;
    for (const auto& name : core_has_own ? std::vector{names[device.core_on_chip]} : names)
      files.push_back("/dev/" + name);
  }
  return files;
}

// Where the slice's devices meet; with those of other processes, once they are all there.
Result<std::shared_ptr<MeetingPlace>> FindMeetings(State& s, const Slice& slice) {
  const Processes& processes = slice.processes();
  if (processes.count == 1) return std::make_shared<Meetings>(std::ssize(slice.devices()));
  PeerOptions options{
      .address = processes.address,
      .build = fmt::format("libtpu.so {} {} with a {} of {} processes", s.options.version,
                           s.options.builds, slice.accelerator_type(), processes.count),
      .own = processes.own,
      .devices = std::vector<std::vector<int64_t>>(processes.count)};
  for (const auto& device : slice.devices()) options.devices[device.process].push_back(device.id);
  return JoinPeers(options);
}

PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args) {
  State& s = state();
  if (!s.engine.status().ok()) return NewError(s.engine.status());
  auto source = s.options.slice_source();
  source.can_be_one_of_several = RunsReplicasAlone(*args);
  auto slice = Slice::Read(source);
  if (!slice) return NewError(slice.error());
  const ChipsUse use{slice->lock_file(), slice->cores(), LibraryAt(__builtin_return_address(0))};
  const bool alone = !use.lock_file.empty();
  if (alone) {
    const Status free = CheckFramework(use);
    if (!free.ok()) return NewError(free);
    const Status locked = LockChips(use.lock_file, use.cores);
    if (!locked.ok()) return NewError(locked);
    HoldDeviceFiles(DeviceFilesOf(*slice));
  }
  const auto meetings = FindMeetings(s, *slice);
  if (!meetings) return NewError(meetings.error());
  // The caller's options are for a real TPU's runtime.
  const auto client = MakeClient(s, *std::move(slice), s.options.counters_folder());
  if (!client) return NewError(client.error());
  (*client)->replicas_alone = RunsReplicasAlone(*args);
  (*client)->meetings = *meetings;
  args->client = (*client)->handle;
  if (alone) NoteFramework(args->client, use);
  return nullptr;
}

// ---- Whose the devices are

PJRT_Error* ProcessIndex(PJRT_Client_ProcessIndex_Args* args) {
  State& s = state();
  const auto client = s.clients.Find(args->client);
  if (!client) return s.engine.Call(pjrt::kClient_ProcessIndex, args);
  args->process_index = (*client)->slice.processes().own;
  return nullptr;
}

PJRT_Error* AddressableDevices(PJRT_Client_AddressableDevices_Args* args) {
  State& s = state();
  const auto client = s.clients.Find(args->client);
  if (!client) return s.engine.Call(pjrt::kClient_AddressableDevices, args);
  args->addressable_devices = (*client)->addressable.data();
  args->num_addressable_devices = (*client)->addressable.size();
  return nullptr;
}

PJRT_Error* IsAddressable(PJRT_Device_IsAddressable_Args* args) {
  State& s = state();
  const auto device = s.devices.Find(args->device);
  if (!device) return s.engine.Call(pjrt::kDevice_IsAddressable, args);
  args->is_addressable = (*device)->client->slice.owns(*(*device)->identity);
  return nullptr;
}

PJRT_Error* DescriptionProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args* args) {
  State& s = state();
  const auto device = s.descriptions.Find(args->device_description);
  if (!device) return s.engine.Call(pjrt::kDeviceDescription_ProcessIndex, args);
  args->process_index = (*device)->identity->process;
  return nullptr;
}

// ---- What a client, a topology and a device say

void Set(const char*& text, size_t& size, std::string_view value) {
  text = value.data();
  size = value.size();
}

template <typename Args>
PJRT_Error* PlatformName(Args* args) {
  Set(args->platform_name, args->platform_name_size, "tpu");
  return nullptr;
}

PJRT_Error* ClientPlatformVersion(PJRT_Client_PlatformVersion_Args* args) {
  State& s = state();
  const auto client = s.clients.Find(args->client);
  if (!client) return s.engine.Call(pjrt::kClient_PlatformVersion, args);
  Set(args->platform_version, args->platform_version_size, (*client)->platform_version);
  return nullptr;
}

PJRT_Error* TopologyPlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args* args) {
  State& s = state();
  const auto client = s.topologies.Find(args->topology);
  if (!client) return s.engine.Call(pjrt::kTopologyDescription_PlatformVersion, args);
  Set(args->platform_version, args->platform_version_size, (*client)->platform_version);
  return nullptr;
}

PJRT_Error* DescriptionKind(PJRT_DeviceDescription_Kind_Args* args) {
  State& s = state();
  const auto device = s.descriptions.Find(args->device_description);
  if (!device) return s.engine.Call(pjrt::kDeviceDescription_Kind, args);
  Set(args->device_kind, args->device_kind_size, (*device)->client->slice.generation().device_kind);
  return nullptr;
}

PJRT_Error* DescriptionDebugString(PJRT_DeviceDescription_DebugString_Args* args) {
  State& s = state();
  const auto device = s.descriptions.Find(args->device_description);
  if (!device) return s.engine.Call(pjrt::kDeviceDescription_DebugString, args);
  Set(args->debug_string, args->debug_string_size, (*device)->identity->debug_string);
  return nullptr;
}

PJRT_Error* DescriptionToString(PJRT_DeviceDescription_ToString_Args* args) {
  State& s = state();
  const auto device = s.descriptions.Find(args->device_description);
  if (!device) return s.engine.Call(pjrt::kDeviceDescription_ToString, args);
  Set(args->to_string, args->to_string_size, (*device)->identity->to_string);
  return nullptr;
}

PJRT_Error* DescriptionAttributes(PJRT_DeviceDescription_Attributes_Args* args) {
  State& s = state();
  const auto device = s.descriptions.Find(args->device_description);
  if (!device) return s.engine.Call(pjrt::kDeviceDescription_Attributes, args);
  args->attributes = (*device)->attributes.data();
  args->num_attributes = (*device)->attributes.size();
  return nullptr;
}

PJRT_Error* UnknownDevice() {
  return NewError(InvalidArgument("This PJRT_Device is of no client that is open."));
}

PJRT_Error* DeviceGetAttributes(pjrt::DeviceGetAttributesArgs* args) {
  const auto device = state().devices.Find(args->device);
  if (!device) return UnknownDevice();
  args->attributes = (*device)->attributes.data();
  args->num_attributes = (*device)->attributes.size();
  // They live as long as the client, so there is nothing to free.
  args->device_attributes = nullptr;
  args->deleter = [](pjrt::DeviceAttributes*) {};
  return nullptr;
}

PJRT_Error* DeviceMemoryStats(PJRT_Device_MemoryStats_Args* args) {
  const auto device = state().devices.Find(args->device);
  if (!device) return UnknownDevice();
  const Hbm& hbm = (*device)->hbm;
  const auto set = [](int64_t& field, bool& is_set, int64_t value) {
    field = value;
    is_set = true;
  };
  args->bytes_in_use = hbm.in_use();
  set(args->peak_bytes_in_use, args->peak_bytes_in_use_is_set, hbm.peak());
  set(args->num_allocs, args->num_allocs_is_set, hbm.allocations());
  set(args->largest_alloc_size, args->largest_alloc_size_is_set, hbm.largest());
  set(args->bytes_limit, args->bytes_limit_is_set, hbm.limit());
  set(args->bytes_reservable_limit, args->bytes_reservable_limit_is_set, hbm.limit());
  set(args->bytes_reserved, args->bytes_reserved_is_set, 0);
  set(args->peak_bytes_reserved, args->peak_bytes_reserved_is_set, 0);
  set(args->largest_free_block_bytes, args->largest_free_block_bytes_is_set,
      std::max<int64_t>(hbm.free(), 0));
  args->pool_bytes_is_set = false;
  args->peak_pool_bytes_is_set = false;
  return nullptr;
}

PJRT_Error* DeviceClearMemoryStats(pjrt::DeviceClearMemoryStatsArgs* args) {
  const auto device = state().devices.Find(args->device);
  if (!device) return UnknownDevice();
  (*device)->hbm.ClearStats();
  return nullptr;
}

}  // namespace

Device::Device(Client* client, PJRT_Device* handle, const DeviceIdentity* identity,
               const Slice& slice, slice::DeviceCounters& counters)
    : client(client),
      handle(handle),
      identity(identity),
      attributes{pjrt::NamedInts("coords", identity->coords.data(), identity->coords.size()),
                 pjrt::NamedInt("core_on_chip", identity->core_on_chip),
                 pjrt::NamedInt("num_cores", slice.cores_per_device()),
                 pjrt::NamedInt("slice_index", 0),
                 pjrt::NamedString("accelerator_type", slice.accelerator_type())},
      counters(counters),
      hbm(slice.generation().usable_hbm_bytes, identity->hbm_name, counters) {}

std::unique_ptr<slice::CountersPage> MakeCounters(const Slice& slice, const std::string& folder) {
  const auto& generation = slice.generation();
  slice::PageIdentity identity{
      .accelerator_type = slice.accelerator_type(),
      .devices_per_chip = generation.devices_per_chip,
      .duty_cycles_per_chip = generation.pci_functions_per_chip,
      .hbm_bandwidth = generation.hbm_bandwidth / generation.devices_per_chip};
  for (const auto& device : slice.devices()) {
    if (slice.owns(device)) identity.devices.push_back({device.chip, device.core_on_chip});
  }
  return slice::CountersPage::Make(folder, identity);
}

Result<Client*> MakeClient(State& s, Slice slice, const std::string& counters_folder) {
  const auto count =
      pjrt::NamedInt("cpu_device_count", static_cast<int64_t>(slice.devices().size()));
  Ample<PJRT_Client_Create_Args> create;
  create->create_options = &count;
  create->num_options = 1;
  TORUS_RETURN_IF_ERROR(s.engine.Take(s.engine.Call(pjrt::kClient_Create, create.get())));

  auto* client = new Client(create->client, std::move(slice), s.options.host, counters_folder);
  RegisterKernels(s.engine);
  client->platform_version = PlatformVersion(s, client->slice, EngineVersion(s, client->handle));
  s.clients.Insert(client->handle, client);
  if (const Status found = FindDevices(s, *client); !found.ok()) {
    DestroyClient(s, client).ok();
    return Error(found);
  }
  return client;
}

Status DestroyClient(State& s, Client* client) {
  auto destroy = MakeArgs<PJRT_Client_Destroy_Args>();
  destroy.client = client->handle;
  return s.engine.Take(ClientDestroy(&destroy));
}

void OverrideClientFunctions(pjrt::Table& table) {
  Override(table, pjrt::kPlugin_Initialize, PluginInitialize);
  Override(table, pjrt::kPlugin_Attributes, PluginAttributes);
  Override(table, pjrt::kClient_Create, ClientCreate);
  Override(table, pjrt::kClient_Destroy, ClientDestroy);
  Override(table, pjrt::kClient_PlatformName, PlatformName<PJRT_Client_PlatformName_Args>);
  Override(table, pjrt::kClient_PlatformVersion, ClientPlatformVersion);
  Override(table, pjrt::kTopologyDescription_PlatformName,
           PlatformName<PJRT_TopologyDescription_PlatformName_Args>);
  Override(table, pjrt::kTopologyDescription_PlatformVersion, TopologyPlatformVersion);
  Override(table, pjrt::kClient_ProcessIndex, ProcessIndex);
  Override(table, pjrt::kClient_AddressableDevices, AddressableDevices);
  Override(table, pjrt::kDevice_IsAddressable, IsAddressable);
  Override(table, pjrt::kDeviceDescription_ProcessIndex, DescriptionProcessIndex);
  Override(table, pjrt::kDeviceDescription_Kind, DescriptionKind);
  Override(table, pjrt::kDeviceDescription_DebugString, DescriptionDebugString);
  Override(table, pjrt::kDeviceDescription_ToString, DescriptionToString);
  Override(table, pjrt::kDeviceDescription_Attributes, DescriptionAttributes);
  Override(table, pjrt::kDevice_GetAttributes, DeviceGetAttributes);
  Override(table, pjrt::kDevice_MemoryStats, DeviceMemoryStats);
  Override(table, pjrt::kDevice_ClearMemoryStats, DeviceClearMemoryStats);
}

}  // namespace torus::tpu
