// Topologies without devices, for ahead-of-time compilation: any of the catalogue.
//
// The engine knows none, but its clients have one each. So a topology that a framework makes is
// that of a client which nobody else sees, with as many devices; programs are compiled by it.
#include "tpu/device/state.h"

namespace torus::tpu {
namespace {

using hardware::Catalogue;
using hardware::Generation;
using hardware::Topology;
using pjrt::MakeArgs;
using pjrt::NewError;

// As upstream names generations ("v5e", "TPU v5 lite"), and as accelerator types begin.
const Generation* FindGeneration(std::string_view name) {
  if (name.starts_with("TPU ")) {
    if (const auto* found = FindGeneration(name.substr(4))) return found;
  }
  for (const auto& generation : Catalogue::BuiltIn().generations()) {
    if (name == generation.name || name == generation.type_prefix ||
        name == generation.device_kind || name == generation.device_kind.substr(4)) {
      return &generation;
    }
  }
  return nullptr;
}

Error NoTopology(std::string_view name, std::string_view why) {
  return InvalidArgument(
      "The TPU topology name '{}' {}; it is a generation and its chips along each axis, such as "
      "v5e:2x2, v4:2x2x4 or tpu7x:2x2x1.",
      name, why);
}

// "v5e:2x2", or an accelerator type; nothing: the slice that the environment says.
Result<Slice> ReadName(State& s, std::string_view name) {
  if (name.empty()) return Slice::Read(s.options.slice_source());
  if (const auto* type = Catalogue::BuiltIn().FindAcceleratorType(name)) {
    return Slice(*type, type->topology, 0);
  }
  const size_t separator = name.find_first_of(":=");
  if (separator == name.npos) return NoTopology(name, "is invalid");
  const auto* generation = FindGeneration(name.substr(0, separator));
  if (generation == nullptr) return NoTopology(name, "begins with no TPU generation");
  auto topology = hardware::ParseTopology(name.substr(separator + 1));
  if (!topology) return Error(topology.error());
  // Upstream writes a 2D topology with a third axis, too.
  if (topology->chips[2] == 1) topology->dimensions = generation->dimensions;
  const auto* type = Catalogue::BuiltIn().FindByTopology(*generation, *topology);
  if (type == nullptr) return NoTopology(name, "is no size that the generation has");
  return Slice(*type, *topology, 0);
}

Status CheckOptions(const PJRT_NamedValue* options, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const std::string_view name(options[i].name, options[i].name_size);
    if (name == "num_slices" && options[i].type == PJRT_NamedValue_kInt64 &&
        options[i].int64_value != 1) {
      return Unimplemented("Topologies of several slices (num_slices={}) are not there yet.",
                           options[i].int64_value);
    }
  }
  return Status();
}

PJRT_Error* TopologyCreate(PJRT_TopologyDescription_Create_Args* args) {
  State& s = state();
  if (!s.engine.status().ok()) return NewError(s.engine.status());
  const Status options = CheckOptions(args->create_options, args->num_options);
  if (!options.ok()) return NewError(options);
  auto slice = ReadName(s, {args->topology_name, args->topology_name_size});
  if (!slice) return NewError(slice.error());
  auto client = MakeClient(s, *std::move(slice), /*counters_folder=*/"");
  if (!client) return NewError(client.error());
  auto topology = MakeArgs<PJRT_Client_TopologyDescription_Args>();
  topology.client = (*client)->handle;
  const Status found = s.engine.Take(s.engine.Call(pjrt::kClient_TopologyDescription, &topology));
  if (!found.ok()) {
    DestroyClient(s, *client).ok();
    return NewError(found);
  }
  s.own_topologies.Insert(topology.topology, *client);
  args->topology = topology.topology;
  return nullptr;
}

PJRT_Error* TopologyDestroy(PJRT_TopologyDescription_Destroy_Args* args) {
  State& s = state();
  if (const auto client = s.own_topologies.Take(args->topology)) {
    return pjrt::ToError(DestroyClient(s, *client));
  }
  return s.engine.Call(pjrt::kTopologyDescription_Destroy, args);
}

}  // namespace

void OverrideTopologyFunctions(pjrt::Table& table) {
  Override(table, pjrt::kTopologyDescription_Create, TopologyCreate);
  Override(table, pjrt::kTopologyDescription_Destroy, TopologyDestroy);
}

}  // namespace torus::tpu
