// Reads logs line by line, and says what they show.
//
// Memory does not grow with the log: of each pattern the first line that matches is kept, and a
// count. Pure; thread-safety: none.
#ifndef TORUS_DOCTOR_DIAGNOSIS_H_
#define TORUS_DOCTOR_DIAGNOSIS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/finding.h"
#include "doctor/knowledge.h"
#include "doctor/values.h"

namespace torus::doctor {

class Diagnosis {
 public:
  // Both must outlive it.
  explicit Diagnosis(const Knowledge& knowledge = Knowledge::BuiltIn());

  // A line of `source`: without its newline, as LogText gives it.
  void AddLine(std::string_view source, std::string_view line);
  int64_t lines() const { return lines_; }
  // A fact of a machine or an environment.
  void AddFact(std::string_view source, std::string_view fact);

  // Worst first, then in the order seen. May be asked again after more lines.
  std::vector<Finding> Findings() const;

 private:
  // Where a pattern matched.
  struct Sighting {
    int64_t times = 0;
    Evidence first;
    Values values;
    int64_t order = 0;
  };

  void See(std::string_view text, bool is_fact, const Evidence& evidence);
  const Sighting* FirstOf(const std::vector<int>& patterns) const;
  int64_t TimesOf(const std::vector<int>& patterns) const;

  const Knowledge& knowledge_;
  std::vector<Sighting> sightings_;                       // by pattern
  std::map<std::string, int64_t, std::less<>> lines_of_;  // so far, by source
  int64_t lines_ = 0;
  int64_t order_ = 0;  // of what is seen
};

}  // namespace torus::doctor

#endif  // TORUS_DOCTOR_DIAGNOSIS_H_
