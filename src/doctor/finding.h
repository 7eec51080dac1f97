// What the doctor says: a fault of a TPU run, what shows it, and the cure.
//
// Plain values; thread-safe as such.
#ifndef TORUS_DOCTOR_FINDING_H_
#define TORUS_DOCTOR_FINDING_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace torus::doctor {

// Worst first. An error keeps the TPU from being used or the program from going on; a warning costs
// time, memory or results; advice is worth a look.
enum class Severity { kError, kWarning, kAdvice };

// How sure the cause is, from what was seen. Anything but kCertain comes with what would confirm
// it.
enum class Confidence { kCertain, kLikely, kPossible };

// Their words, in knowledge.toml and in reports.
inline constexpr std::array kSeverities{std::pair{"error", Severity::kError},
                                        std::pair{"warning", Severity::kWarning},
                                        std::pair{"advice", Severity::kAdvice}};
inline constexpr std::array kConfidences{std::pair{"certain", Confidence::kCertain},
                                         std::pair{"likely", Confidence::kLikely},
                                         std::pair{"possible", Confidence::kPossible}};

struct Evidence {
  std::string source;  // "train.log", or "this Python"
  int64_t line = 0;    // from 1; 0: no line of a log, but a fact
  std::string text;    // the line, cut to kMaxEvidence bytes
  int64_t times = 1;   // that lines like it were seen
};

inline constexpr size_t kMaxEvidence = 300;

struct Finding {
  std::string id;    // "TD005": never given to another kind
  std::string name;  // "cpu-only-tensorflow"
  Severity severity = Severity::kError;
  Confidence confidence = Confidence::kCertain;
  std::string cause;  // one sentence
  std::vector<Evidence> evidence;
  std::string cure;   // a command or a change of the program
  std::string check;  // how to see that the cause is the one, and gone
};

}  // namespace torus::doctor

#endif  // TORUS_DOCTOR_FINDING_H_
