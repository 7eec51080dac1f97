// The options of the TPU's compiler that Torus knows: xla_tpu_... and others that only it has.
//
// They tune what a software TPU does not have, so they change nothing here; but a program that
// misspells one, or gives it a value of another type, is told so as the real compiler would.
// Pure. Thread-safety: all functions.
#ifndef TORUS_TPU_DEVICE_TPU_OPTIONS_H_
#define TORUS_TPU_DEVICE_TPU_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"

namespace torus::tpu {

// A value of a compile option as xla.OptionOverrideProto has it.
using OptionValue = std::variant<std::string, bool, int64_t, double>;

// Whether the name is of the TPU's compiler: known, or named as only its options are.
bool IsTpuOption(std::string_view name);

// INVALID_ARGUMENT for a name that is not known (with the nearest that is) or a value that is not
// of its type. REQUIRES: IsTpuOption(name).
Status CheckTpuOption(std::string_view name, const OptionValue& value);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_TPU_OPTIONS_H_
