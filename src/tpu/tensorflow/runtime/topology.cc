#include "tpu/tensorflow/runtime/topology.h"

#include <algorithm>
#include <string_view>

#include "hardware/catalogue.h"
#include "tpu/pjrt/args.h"
#include "tpu/tensorflow/runtime/tpu.h"

namespace torus::tensorflow {
namespace {

using pjrt::MakeArgs;

// The core that is described; what all share goes to `topology`.
Result<Core> CoreOf(PJRT_DeviceDescription* description, Topology& topology) {
  auto id = MakeArgs<PJRT_DeviceDescription_Id_Args>();
  auto attributes = MakeArgs<PJRT_DeviceDescription_Attributes_Args>();
  id.device_description = attributes.device_description = description;
  TORUS_RETURN_IF_ERROR(Take(Tpu::api(), Tpu::api()->PJRT_DeviceDescription_Id(&id)));
  TORUS_RETURN_IF_ERROR(
      Take(Tpu::api(), Tpu::api()->PJRT_DeviceDescription_Attributes(&attributes)));
  Core core{.id = id.id};
  for (size_t i = 0; i < attributes.num_attributes; ++i) {
    const auto& attribute = attributes.attributes[i];
    const std::string_view name(attribute.name, attribute.name_size);
    if (name == "coords")
      std::copy_n(attribute.int64_array_value, std::min(attribute.value_size, core.chip.size()),
                  core.chip.begin());
    else if (name == "core_on_chip")
      core.index = static_cast<int>(attribute.int64_value);
    else if (name == "accelerator_type")
      topology.accelerator_type.assign(attribute.string_value, attribute.value_size);
  }
  return core;
}

int64_t HbmOf(std::string_view kind) {
  const auto generations = hardware::Catalogue::BuiltIn().generations();
  const auto at = std::ranges::find(generations, kind, &hardware::Generation::device_kind);
  return at == generations.end() ? 0 : at->usable_hbm_bytes;
}

Result<Topology> Read() {
  auto create = MakeArgs<PJRT_TopologyDescription_Create_Args>();
  TORUS_RETURN_IF_ERROR(Take(Tpu::api(), Tpu::api()->PJRT_TopologyDescription_Create(&create)));
  auto list = MakeArgs<PJRT_TopologyDescription_GetDeviceDescriptions_Args>();
  list.topology = create.topology;
  TORUS_RETURN_IF_ERROR(
      Take(Tpu::api(), Tpu::api()->PJRT_TopologyDescription_GetDeviceDescriptions(&list)));
  Topology topology;
  for (size_t i = 0; i < list.num_descriptions; ++i) {
    TORUS_ASSIGN_OR_RETURN(const auto core, CoreOf(list.descriptions[i], topology));
    for (size_t axis = 0; axis < core.chip.size(); ++axis)
      topology.bounds[axis] = std::max(topology.bounds[axis], core.chip[axis] + 1);
    topology.cores_per_chip = std::max(topology.cores_per_chip, core.index + 1);
    topology.cores.push_back(core);
  }
  std::ranges::sort(topology.cores, {}, &Core::id);
  if (list.num_descriptions > 0) {
    auto kind = MakeArgs<PJRT_DeviceDescription_Kind_Args>();
    kind.device_description = list.descriptions[0];
    TORUS_RETURN_IF_ERROR(Take(Tpu::api(), Tpu::api()->PJRT_DeviceDescription_Kind(&kind)));
    topology.kind.assign(kind.device_kind, kind.device_kind_size);
    topology.hbm_bytes = HbmOf(topology.kind);
  }
  return topology;
}

Topology ReadOrSayWhy() {
  auto topology = Read();
  if (topology) return *std::move(topology);
  Topology none;
  none.why = topology.error().message();
  return none;
}

}  // namespace

const Core* Topology::At(int x, int y, int z, int index) const {
  const auto at = std::ranges::find_if(cores, [&](const Core& core) {
    return core.chip == std::array{x, y, z} && core.index == index;
  });
  return at == cores.end() ? nullptr : &*at;
}

const Topology& Topology::Get() {
  static const Topology& topology = *new Topology(ReadOrSayWhy());
  return topology;
}

}  // namespace torus::tensorflow
