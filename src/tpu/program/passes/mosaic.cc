// Kernels that Pallas compiled with Mosaic are machine code of the real chip's cores.
//
// The call's backend_config is JSON that holds the kernel as MLIR of Mosaic's dialect, of which
// nothing but Google's compiler makes code. The program is refused with the kernel's name and the
// way out.
#include <algorithm>
#include <cctype>

#include "tpu/program/hlo_attributes.h"
#include "tpu/program/rewrite.h"

namespace torus::program {
namespace {

// The bytes that base64 text stands for, up to the first character that is none of it.
std::string FromBase64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) bytes.push_back(static_cast<char>(bits >> (count -= 8)));
  }
  return bytes;
}

bool IsIdentifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
}

// The kernel's function, which stands in clear among the strings of the MLIR bytecode that the
// JSON has in base64. MLIR puts the names of operations first, a function's return last, and then
// what the operations name, the function first. Empty where it is otherwise.
std::string FunctionName(std::string_view backend_config) {
  constexpr std::string_view kBody = "\"body\":", kReturn("func.return\0", 12);
  size_t at = backend_config.find(kBody);
  if (at == backend_config.npos) return {};
  at = backend_config.find('"', at + kBody.size());
  if (at == backend_config.npos) return {};
  const auto code = FromBase64(backend_config.substr(at + 1));
  const size_t begin = code.find(kReturn);
  if (begin == code.npos) return {};
  const auto name = std::string(code.c_str() + begin + kReturn.size());
  return IsIdentifier(name) ? name : std::string();
}

// The kernel's function, or else where in the program it is called.
std::string KernelName(const HloInstruction& call) {
  const auto function = FunctionName(call.backend_config);
  if (!function.empty()) return function;
  const auto source = SourceOfInstruction(call);
  return source.op_name.empty() ? call.name : source.op_name;
}

}  // namespace

Result<bool> RefuseMosaic(HloModule& module) {
  for (const auto& computation : module.computations) {
    for (const auto& instruction : computation.instructions) {
      if (instruction.custom_call_target != "tpu_custom_call") continue;
      return Unimplemented(
          "The Pallas kernel '{}' of the program '{}' is compiled for a real TPU's cores "
          "(tpu_custom_call), which the software TPU does not have. Run it interpreted: "
          "pl.pallas_call(..., interpret=True), or interpret=pltpu.InterpretParams() to simulate "
          "a TPU's memories and DMAs.",
          KernelName(instruction), module.name);
    }
  }
  return false;
}

}  // namespace torus::program
