// Compile options: only whole entries are taken out, and once is enough.
#include "fuzz.h"
#include "tpu/device/compile_options.h"

namespace torus::fuzz {

void Fuzz(std::string_view input) {
  const auto kept = tpu::WithoutTpuOptions(input);
  if (!kept || !*kept) return;
  const std::string& rest = **kept;
  Check(rest.size() < input.size(), "{} bytes of {} are fewer", rest.size(), input.size());
  const auto again = tpu::WithoutTpuOptions(rest);
  Check(again && !*again, "nothing is left to take out");
  // What is kept stands in the input, in its order.
  size_t at = 0;
  for (const char byte : rest) {
    at = input.find(byte, at);
    Check(at != std::string_view::npos, "nothing is added");
    ++at;
  }
}

}  // namespace torus::fuzz
