// Programs are changed as HLO; one without collectives is compiled as it came.
#include "tpu/device/replicas.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "tpu/device/compile_options.h"
#include "tpu/device/state.h"
#include "tpu/program/collectives.h"
#include "tpu/program/convert.h"

namespace torus::tpu {
namespace {

using pjrt::MakeArgs;
using pjrt::NewError;
using Compile = std::function<PJRT_Error*(PJRT_Client_Compile_Args*)>;

std::string_view OptionsOf(const PJRT_Client_Compile_Args& args) {
  return {args.compile_options, args.compile_options_size};
}

PJRT_Error* CompileWith(const std::string& options, PJRT_Client_Compile_Args* args,
                        const Compile& compile) {
  const auto* const text = std::exchange(args->compile_options, options.data());
  const size_t size = std::exchange(args->compile_options_size, options.size());
  PJRT_Error* error = compile(args);
  args->compile_options = text;
  args->compile_options_size = size;
  return error;
}

PJRT_Error* CompileHlo(const std::string& hlo, const std::string& options,
                       PJRT_Client_Compile_Args* args, const Compile& compile) {
  constexpr std::string_view kFormat = "hlo";
  auto program = MakeArgs<PJRT_Program>();
  program.code = const_cast<char*>(hlo.data());
  program.code_size = hlo.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  const auto* const own_program = std::exchange(args->program, &program);
  PJRT_Error* error = CompileWith(options, args, compile);
  args->program = own_program;
  return error;
}

}  // namespace

bool RunsReplicasAlone(const PJRT_Client_Create_Args& args) {
  const std::span options(args.create_options, args.num_options);
  return std::ranges::any_of(options, [](const PJRT_NamedValue& option) {
    return std::string_view(option.name, option.name_size) == "ml_framework_name" &&
           option.type == PJRT_NamedValue_kString &&
           std::string_view(option.string_value, option.value_size) == "PyTorch/XLA";
  });
}

PJRT_Error* CompileReplicas(State& s, const Client& client, PJRT_Client_Compile_Args* args,
                            const Compile& compile) {
  const Extent extent = ExtentOf(OptionsOf(*args));
  if (extent.partitions > 1 && client.slice.processes().count > 1) {
    return NewError(Unimplemented(
        "A program is partitioned over the {} processes of a slice (torch_xla's SPMD), and the "
        "software TPU partitions within one process only: run one process without "
        "torch_xla.launch, "
        "which has all the devices.",
        client.slice.processes().count));
  }
  if (extent.replicas < 2 || extent.partitions > 1) return compile(args);
  auto module = program::HloOf(s.engine, args->client, program::ProgramSource::Of(*args->program),
                               OptionsOf(*args));
  if (!module) return compile(args);  // what cannot be read, the engine will say in its own words
  const auto calls = program::CallCollectives(*module);
  if (!calls) return NewError(calls.error());
  const std::string options = ForAnyDevice(OptionsOf(*args));
  if (*calls == 0) return CompileWith(options, args, compile);
  if (PJRT_Error* error = CompileHlo(program::WriteHlo(*module), options, args, compile)) {
    return error;
  }
  if (const auto program = s.programs.Find(args->executable)) (*program)->meets = true;
  return nullptr;
}

}  // namespace torus::tpu
