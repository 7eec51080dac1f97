// Reads and rewrites the options that a framework compiles with, so that the engine takes them.
//
// Programs for TPUs name options of the TPU compiler (tpu_options.h) that the engine does not know
// and would refuse; they are checked and left out. Pure. Thread-safety: all.
#ifndef TORUS_TPU_DEVICE_COMPILE_OPTIONS_H_
#define TORUS_TPU_DEVICE_COMPILE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace torus::tpu {

// A serialized xla.CompileOptionsProto without the TPU compiler's options, or nullopt where the
// bytes can stay as they are (no such option, or not a proto: the engine will say so).
// INVALID_ARGUMENT as CheckTpuOption.
Result<std::optional<std::string>> WithoutTpuOptions(std::string_view compile_options);

// How many devices the options, a serialized xla.CompileOptionsProto, are for. 1 and 1 where they
// do not say, or are no proto.
struct Extent {
  int64_t replicas = 1, partitions = 1;
};
Extent ExtentOf(std::string_view compile_options);

// The same options for a program of one device, whichever a run names ("portable"). REQUIRES: they
// are a proto.
std::string ForAnyDevice(std::string_view compile_options);

// A text that is the same for the same options: protobuf writes a map's entries in an order that
// differs from process to process. For comparing only; bytes that are no proto stay as they are.
std::string ComparableOptions(std::string_view compile_options);

}  // namespace torus::tpu

#endif  // TORUS_TPU_DEVICE_COMPILE_OPTIONS_H_
