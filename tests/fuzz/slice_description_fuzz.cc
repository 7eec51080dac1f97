// The slice's description: what is read is written so that it reads as the same again.
#include "fuzz.h"
#include "slice/description.h"

namespace torus::fuzz {

void Fuzz(std::string_view input) {
  const auto description = slice::Parse(input);
  if (!description) {
    Check(description.error().code() == Code::kInvalidArgument, "{} is INVALID_ARGUMENT",
          description.error().ToString());
    return;
  }
  const std::string text = slice::Format(*description);
  const auto again = slice::Parse(text);
  Check(again.has_value(), "what was written reads: {}\n{}", again ? "" : again.error().message(),
        text);
  Check(slice::Format(*again) == text, "it reads as the same:\n{}{}", text, slice::Format(*again));
  Check(again->worker_addresses == description->worker_addresses &&
            again->accelerator_type == description->accelerator_type &&
            again->memory_limit_bytes == description->memory_limit_bytes,
        "no field is lost:\n{}", text);
}

}  // namespace torus::fuzz
