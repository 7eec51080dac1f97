// Small functions of text.
//
// Header-only, pure.
#ifndef TORUS_BASE_TEXT_H_
#define TORUS_BASE_TEXT_H_

#include <algorithm>
#include <cstdint>
#include <string>
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

// `text` without what would move a reader's cursor: control characters become '?'.
inline std::string Printable(std::string_view text) {
  std::string printable;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters, too.
    const bool wide = byte == 0xc2 && i + 1 < text.size() && (text[i + 1] & 0xe0) == 0x80;
    if (wide) ++i;
    printable += wide || byte < 0x20 || byte == 0x7f ? '?' : text[i];
  }
  return printable;
}

// What /proc/<pid>/cmdline has, as a line for people: "python3 train.py".
inline std::string CommandLine(std::string cmdline) {
  for (const char space : {'\0', '\n', '\t'}) std::ranges::replace(cmdline, space, ' ');
  return Printable(Trim(cmdline));
}

}  // namespace torus

#endif  // TORUS_BASE_TEXT_H_
