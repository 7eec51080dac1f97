// The engine's hook at the end of a compile: it shows a program once it is optimized and scheduled,
// and goes on with what it is given in its place.
//
// This is OpenXLA's PJRT extension XlaTransform (pjrt_c_api_xla_transform_extension.h, version 1).
// While the hook is set every compile of the engine passes it, so it is set for one compile at a
// time and must tell by the program whether it is meant. Thread-safety: from any thread.
#ifndef TORUS_TPU_PJRT_XLA_TRANSFORM_H_
#define TORUS_TPU_PJRT_XLA_TRANSFORM_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tpu/pjrt/engine.h"

namespace torus::pjrt {

// Gets a serialized xla.HloModuleProto with its schedule; returns what takes its place, or nothing.
using Transform = std::function<std::optional<std::string>(std::string_view module)>;

// Calls `compile` with the hook set. UNIMPLEMENTED, and nothing called, where the engine has none;
// otherwise what `compile` returned.
Status WithTransform(Engine& engine, const Transform& transform,
                     const std::function<Status()>& compile);

}  // namespace torus::pjrt

#endif  // TORUS_TPU_PJRT_XLA_TRANSFORM_H_
