#include "doctor/diagnosis.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace torus::doctor {
namespace {

// Takes out what follows from what else was found.
void Hide(const std::vector<const Kind*>& kinds, std::vector<Finding>& findings) {
  std::erase_if(findings, [&](const Finding& finding) {
    return std::ranges::any_of(kinds, [&](const Kind* kind) {
      return kind->id != finding.id &&
             std::ranges::find(kind->hides, finding.id) != kind->hides.end();
    });
  });
}

}  // namespace

Diagnosis::Diagnosis(const Knowledge& knowledge)
    : knowledge_(knowledge), sightings_(knowledge.patterns()) {}

void Diagnosis::AddLine(std::string_view source, std::string_view line) {
  auto count = lines_of_.find(source);
  if (count == lines_of_.end()) count = lines_of_.emplace(source, 0).first;
  ++lines_;
  See(line, false, {.source = count->first, .line = ++count->second});
}

void Diagnosis::AddFact(std::string_view source, std::string_view fact) {
  See(fact, true, {.source = std::string(source)});
}

void Diagnosis::See(std::string_view text, bool is_fact, const Evidence& evidence) {
  ++order_;
  for (const int pattern : knowledge_.Match(text, is_fact)) {
    Sighting& sighting = sightings_[pattern];
    if (++sighting.times > 1) continue;
    sighting.first = evidence;
    sighting.first.text = Printable(Trim(text).substr(0, kMaxEvidence));
    for (const auto& [name, value] : knowledge_.Capture(pattern, text))
      sighting.values[name] = Printable(value);
    sighting.order = order_;
  }
}

const Diagnosis::Sighting* Diagnosis::FirstOf(const std::vector<int>& patterns) const {
  const Sighting* first = nullptr;
  for (const int pattern : patterns) {
    const auto& sighting = sightings_[pattern];
    if (sighting.times > 0 && (first == nullptr || sighting.order < first->order))
      first = &sighting;
  }
  return first;
}

int64_t Diagnosis::TimesOf(const std::vector<int>& patterns) const {
  int64_t times = 0;
  for (const int pattern : patterns) times += sightings_[pattern].times;
  return times;
}

std::vector<Finding> Diagnosis::Findings() const {
  std::vector<std::pair<int64_t, Finding>> found;  // and when
  std::vector<const Kind*> kinds;
  for (const Kind& kind : knowledge_.kinds()) {
    const int64_t times = TimesOf(kind.signs);
    if (times < kind.times || TimesOf(kind.unless) > 0) continue;
    if (!kind.with.empty() && TimesOf(kind.with) == 0) continue;
    const Sighting& first = *FirstOf(kind.signs);
    Values values = first.values;
    if (const Sighting* other = FirstOf(kind.with))
      values.insert(other->values.begin(), other->values.end());
    values["times"] = fmt::format("{}", times);
    Derive(kind.derive, values);
    values.insert(kind.defaults.begin(), kind.defaults.end());
    Evidence evidence = first.first;
    evidence.times = times;
    kinds.push_back(&kind);
    found.emplace_back(first.order, Finding{kind.id,
                                            kind.name,
                                            kind.severity,
                                            kind.confidence,
                                            Fill(kind.cause, values),
                                            {std::move(evidence)},
                                            Fill(kind.cure, values),
                                            Fill(kind.check, values)});
  }
  std::ranges::stable_sort(
      found, {}, [](const auto& each) { return std::pair(each.second.severity, each.first); });
  std::vector<Finding> findings;
  for (auto& each : found) findings.push_back(std::move(each.second));
  Hide(kinds, findings);
  return findings;
}

}  // namespace torus::doctor
