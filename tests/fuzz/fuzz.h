// What every fuzz target shares. A target is one file that defines Fuzz(): it feeds one input to
// our code and checks what must hold whatever the input is. With clang it becomes a libFuzzer
// program; with any compiler replay.cc runs its corpus as a unit test.
#ifndef TORUS_TESTS_FUZZ_FUZZ_H_
#define TORUS_TESTS_FUZZ_FUZZ_H_

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace torus::fuzz {

void Fuzz(std::string_view input);

// Dies, with what was meant to hold and what was seen, unless `holds`.
template <typename... Args>
void Check(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (holds) return;
  fmt::print(stderr, "does not hold: {}\n", fmt::format(format, std::forward<Args>(args)...));
  std::abort();
}

// Takes what stands before the first `mark` off `rest`; all of it where there is no mark.
inline std::string_view TakeUntil(std::string_view mark, std::string_view* rest) {
  const size_t at = rest->find(mark);
  const std::string_view taken = rest->substr(0, at);
  rest->remove_prefix(at == std::string_view::npos ? rest->size() : at + mark.size());
  return taken;
}

}  // namespace torus::fuzz

#endif  // TORUS_TESTS_FUZZ_FUZZ_H_
