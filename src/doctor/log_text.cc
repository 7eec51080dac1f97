#include "doctor/log_text.h"

#include <iconv.h>

#include <array>
#include <utility>

namespace torus::doctor {

// Turns UTF-16 into UTF-8 as it comes; what is no text becomes '?'.
class LogText::Utf16 {
 public:
  explicit Utf16(const char* encoding) : converter_(iconv_open("UTF-8", encoding)) {}
  ~Utf16() { iconv_close(converter_); }
  Utf16(const Utf16&) = delete;
  Utf16& operator=(const Utf16&) = delete;

  std::string Decode(std::string_view bytes) {
    rest_ += bytes;
    std::string text;
    char* in = rest_.data();
    size_t left = rest_.size();
    while (left > 1) {
      std::array<char, 4096> buffer;
      char* out = buffer.data();
      size_t room = buffer.size();
      const bool whole = iconv(converter_, &in, &left, &out, &room) != static_cast<size_t>(-1);
      text.append(buffer.data(), out);
      if (whole || (errno == EINVAL && left < 4)) break;  // half a character: more may come
      if (errno == E2BIG) continue;
      text += '?';
      in += 2;
      left -= 2;
    }
    rest_.erase(0, rest_.size() - left);
    return text;
  }

 private:
  const iconv_t converter_;
  std::string rest_;
};

LogText::LogText(OnLine on_line) : on_line_(std::move(on_line)) {}
LogText::~LogText() = default;

void LogText::Add(std::string_view bytes) {
  if (!decided_) {
    head_ += bytes;
    if (head_.size() < 2) return;
    decided_ = true;
    const auto mark = std::string_view(head_).substr(0, 2);
    if (mark == "\xff\xfe") utf16_ = std::make_unique<Utf16>("UTF-16LE");
    if (mark == "\xfe\xff") utf16_ = std::make_unique<Utf16>("UTF-16BE");
    return Add(std::exchange(head_, {}).substr(utf16_ ? 2 : 0));
  }
  if (utf16_) {
    AddPlain(utf16_->Decode(bytes));
  } else {
    AddPlain(bytes);
  }
}

void LogText::End() {
  if (!decided_) AddPlain(head_);
  if (!line_.empty()) EndLine();
}

void LogText::AddPlain(std::string_view text) {
  while (!text.empty()) {
    // Most of a log is plain text.
    const size_t plain =
        escape_ == Escape::kNone ? std::min(text.find_first_of("\n\r\x1b"), text.size()) : 0;
    line_ += text.substr(0, std::min(plain, kMaxLine - line_.size()));
    text.remove_prefix(plain);
    if (text.empty()) return;
    AddByte(text[0]);
    text.remove_prefix(1);
  }
}

// The forms of ECMA-48 that programs print: ESC [ … letter, ESC ] … BEL or ESC \, ESC letter.
void LogText::AddByte(char byte) {
  switch (escape_) {
    case Escape::kNone:
      if (byte == '\x1b') {
        escape_ = Escape::kBegun;
      } else {
        EndLine();
      }
      return;
    case Escape::kBegun:
      escape_ = byte == '[' ? Escape::kControl : byte == ']' ? Escape::kText : Escape::kNone;
      return;
    case Escape::kControl:
      if (byte >= 0x40 && byte <= 0x7e) escape_ = Escape::kNone;
      if (byte == '\n') {  // it was none
        escape_ = Escape::kNone;
        EndLine();
      }
      return;
    case Escape::kText:
      if (byte == '\x1b') escape_ = Escape::kTextEnding;
      if (byte == '\a' || byte == '\n') escape_ = Escape::kNone;
      return;
    case Escape::kTextEnding:
      escape_ = Escape::kNone;
      return;
  }
}

void LogText::EndLine() {
  on_line_(line_);
  line_.clear();
}

}  // namespace torus::doctor
