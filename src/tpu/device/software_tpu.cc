// Makes the table: every function forwards to the engine, and some are the software TPU's own.
#include "tpu/device/software_tpu.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "tpu/device/host_callbacks.h"
#include "tpu/device/profiler.h"
#include "tpu/device/state.h"

namespace torus::tpu {
namespace {

State* the_state = nullptr;

// What the table's entries do, behind the check of their struct.
std::array<pjrt::Function, pjrt::kSlots> the_functions;

// An entry of the table. A struct that lacks inputs would have the function, or the engine, read
// what is not there; PJRT_Error_Destroy and PJRT_Error_Message have no way to say so.
template <size_t kSlot>
PJRT_Error* Enter(void* args) {
  if (args != nullptr && pjrt::StructSize(args) >= pjrt::LeastSize(kSlot)) {
    return the_functions[kSlot](args);
  }
  if (kSlot == pjrt::kError_Destroy || kSlot == pjrt::kError_Message) return nullptr;
  return pjrt::NewError(InvalidArgument(
      "{} got a struct of {} bytes and needs {}. libtpu.so {} serves frameworks of PJRT C API 0.67 "
      "(jax 0.6) and newer.",
      pjrt::FunctionName(kSlot), args == nullptr ? 0 : pjrt::StructSize(args),
      pjrt::LeastSize(kSlot), the_state->options.version));
}

// Forwards to the engine's function of the same place, or says that it has none.
template <size_t kSlot>
PJRT_Error* Forward(void* args) {
  return the_state->engine.Call(kSlot, args);
}

template <size_t... kSlots>
void ForwardAll(pjrt::Table& table, std::index_sequence<kSlots...>) {
  ((table.functions[kSlots] = Forward<kSlots>), ...);
}

// Puts the check of structs before every function.
template <size_t... kSlots>
void CheckAll(pjrt::Table& table, std::index_sequence<kSlots...>) {
  std::ranges::copy(table.functions, the_functions.begin());
  ((table.functions[kSlots] = Enter<kSlots>), ...);
}

PJRT_Error* ErrorDestroy(PJRT_Error_Destroy_Args* args) {
  the_state->engine.Destroy(args);
  return nullptr;
}

PJRT_Error* ErrorMessage(PJRT_Error_Message_Args* args) {
  the_state->engine.Message(args);
  return nullptr;
}

PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) { return the_state->engine.GetCode(args); }

PJRT_Error* ErrorForEachPayload(pjrt::ErrorForEachPayloadArgs* args) {
  return the_state->engine.ForEachPayload(args);
}

// The version that the table answers to: the engine's, as far as Torus knows it. What an older
// engine lacks is not null even so.
void SetVersion(pjrt::Table& table) {
  table.struct_size = sizeof(table);
  table.version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  table.version.major_version = PJRT_API_MAJOR;
  table.version.minor_version = pjrt::kNewestMinor;
  if (const PJRT_Api* api = the_state->engine.api()) {
    table.struct_size = std::min(table.struct_size, api->struct_size);
    table.extension_start = MakeProfilerExtension(api->extension_start);
    table.version.minor_version =
        std::min(table.version.minor_version, api->pjrt_api_version.minor_version);
  }
}

}  // namespace

State& state() { return *the_state; }

const PJRT_Api* MakeSoftwareTpu(Result<const PJRT_Api*> engine, SoftwareTpuOptions options) {
  // Never destroyed, and still to be found, so that leak checkers find no leak.
  static auto& states = *new std::deque<State>;
  static auto& tables = *new std::deque<pjrt::Table>;
  the_state = &states.emplace_back(std::move(engine), std::move(options));
  auto* table = &tables.emplace_back();
  SetVersion(*table);
  ForwardAll(*table, std::make_index_sequence<pjrt::kSlots>());
  Override(*table, pjrt::kError_Destroy, ErrorDestroy);
  Override(*table, pjrt::kError_Message, ErrorMessage);
  Override(*table, pjrt::kError_GetCode, ErrorGetCode);
  Override(*table, pjrt::kError_ForEachPayload, ErrorForEachPayload);
  OverrideClientFunctions(*table);
  OverrideBufferFunctions(*table);
  OverrideProgramFunctions(*table);
  OverrideRunFunctions(*table);
  OverrideExecutableFunctions(*table);
  OverrideTopologyFunctions(*table);
  OverrideStreamFunctions(*table);
  CheckAll(*table, std::make_index_sequence<pjrt::kSlots>());
  return table->api();
}

}  // namespace torus::tpu
