// Small functions of text.
//
// Header-only, pure.
#ifndef TORUS_BASE_TEXT_H_
#define TORUS_BASE_TEXT_H_

#include <cstdint>
#include <string_view>

namespace torus {

// Without the white space at both ends.
constexpr std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The 64-bit FNV-1a hash. Names on disk and in the kernel are made of it: it never changes.
constexpr uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace torus

#endif  // TORUS_BASE_TEXT_H_
