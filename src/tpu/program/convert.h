// From what a framework sends (StableHLO portable artifacts, MLIR text, HLO) to HLO.
//
// No library that reads StableHLO whole is small enough to carry, and the engine has one inside: it
// is asked to compile with options that make it write the HLO down and stop right there with an
// error, in milliseconds. What it writes goes to a folder in memory (/dev/shm; where there is none,
// TMPDIR or /tmp), which is removed again. Thread-safety: all functions, from any thread.
#ifndef TORUS_TPU_PROGRAM_CONVERT_H_
#define TORUS_TPU_PROGRAM_CONVERT_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "tpu/pjrt/engine.h"
#include "tpu/program/hlo.h"

namespace torus::program {

// A PJRT_Program's fields. The views must outlive the call they are passed to.
struct ProgramSource {
  std::string_view code;
  std::string_view format;  // "mlir", "hlo"

  static ProgramSource Of(const PJRT_Program& program) {
    return {{program.code, program.code_size}, {program.format, program.format_size}};
  }
};

// The program as HLO, before any optimization and partitioning: shapes are global, shardings are
// attributes. `compile_options` is the caller's serialized xla.CompileOptionsProto. A compile of it
// as format "hlo" with the same options gives what a compile of the source would have given.
// INVALID_ARGUMENT where the program is none; UNIMPLEMENTED for other formats; otherwise the
// engine's error, or what keeps the folder from being made.
Result<HloModule> HloOf(pjrt::Engine& engine, PJRT_Client* client, ProgramSource source,
                        std::string_view compile_options);

// The program, which is HLO, as it is once the engine has decided how to share each value out among
// the devices, and before it does: instructions have their shardings. The engine compiles it for
// that as far as it comes. The engine's error where it does not come so far.
Result<HloModule> ShardedHlo(pjrt::Engine& engine, PJRT_Client* client, const HloModule& module,
                             std::string_view compile_options);

// The options that make the engine write HLO into `folder` and stop. For HloOf and its tests.
// Throws protozero::exception where `compile_options` is no proto.
std::string ConversionOptions(std::string_view compile_options, const std::string& folder);

}  // namespace torus::program

#endif  // TORUS_TPU_PROGRAM_CONVERT_H_
