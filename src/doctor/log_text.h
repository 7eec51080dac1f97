// Bytes of a log to lines that can be read: UTF-16 becomes UTF-8, terminal escapes go, a progress
// bar's rewritten line is a line each time.
//
// Memory is bounded, whatever comes: of a longer line the first kMaxLine bytes are kept.
// Thread-safety: none.
#ifndef TORUS_DOCTOR_LOG_TEXT_H_
#define TORUS_DOCTOR_LOG_TEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace torus::doctor {

inline constexpr size_t kMaxLine = 16 << 10;

class LogText {
 public:
  using OnLine = std::function<void(std::string_view line)>;

  explicit LogText(OnLine on_line);
  ~LogText();
  LogText(const LogText&) = delete;
  LogText& operator=(const LogText&) = delete;

  void Add(std::string_view bytes);
  // The last line, where no newline ended it.
  void End();

 private:
  class Utf16;

  void AddPlain(std::string_view text);
  void AddByte(char byte);
  void EndLine();

  enum class Escape { kNone, kBegun, kControl, kText, kTextEnding };

  const OnLine on_line_;
  std::string head_;  // the first bytes, until they tell the encoding
  bool decided_ = false;
  std::unique_ptr<Utf16> utf16_;
  std::string line_;
  Escape escape_ = Escape::kNone;
};

}  // namespace torus::doctor

#endif  // TORUS_DOCTOR_LOG_TEXT_H_
