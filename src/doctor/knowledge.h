// The kinds of findings, as data (knowledge.toml): what shows each, in a log or among the facts of
// a machine (facts.h), and what is then said.
//
// Pure; immutable, so thread-safe.
#ifndef TORUS_DOCTOR_KNOWLEDGE_H_
#define TORUS_DOCTOR_KNOWLEDGE_H_

#include <re2/set.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "doctor/finding.h"

namespace torus::doctor {

// A kind of finding. Texts have {places} for the values that its signs capture.
struct Kind {
  std::string id, name;
  Severity severity = Severity::kError;
  Confidence confidence = Confidence::kCertain;
  std::vector<int> signs;   // any of these patterns shows it…
  std::vector<int> with;    // … beside any of these, if there are some…
  std::vector<int> unless;  // … and none of these
  int64_t times = 1;        // that signs must be seen
  std::string derive;  // what more values are made of the captured ones (values.h); may be empty
  std::map<std::string, std::string> defaults;  // values where a sign captures none
  std::vector<std::string> hides;  // ids that follow from this one, and need not be said
  std::string cause, cure, check;
  std::string example;  // a log that shows it, for its page
};

class Knowledge {
 public:
  enum class Scope { kAll, kFacts };  // kFacts: the kinds that a fact can show, in less memory

  // Reads the text of knowledge.toml. INVALID_ARGUMENT says the line and what is wrong there.
  static Result<Knowledge> Parse(std::string_view toml, Scope scope = Scope::kAll);
  // The ones that are built in.
  static const Knowledge& BuiltIn();
  static const Knowledge& OfFacts();

  const std::vector<Kind>& kinds() const { return kinds_; }
  // The patterns that match, by their numbers in Kind: of a log's line, or of a fact.
  std::vector<int> Match(std::string_view text, bool is_fact = false) const;
  // What a pattern that matches a line captures, by the names of its groups.
  std::map<std::string, std::string> Capture(int pattern, std::string_view line) const;
  size_t patterns() const { return patterns_.size(); }
  // The names that a pattern captures.
  std::vector<std::string> NamesOf(int pattern) const;

 private:
  friend class KnowledgeReader;

  std::vector<Kind> kinds_;
  std::vector<std::shared_ptr<const RE2>> patterns_;
  std::vector<bool> of_facts_;           // by pattern
  std::shared_ptr<const RE2::Set> set_;  // all of them at once
};

}  // namespace torus::doctor

#endif  // TORUS_DOCTOR_KNOWLEDGE_H_
