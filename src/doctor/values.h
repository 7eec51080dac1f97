// Values that are computed from what a log said, to be named in a finding.
//
// Pure; thread-safe.
#ifndef TORUS_DOCTOR_VALUES_H_
#define TORUS_DOCTOR_VALUES_H_

#include <map>
#include <string>
#include <string_view>

namespace torus::doctor {

using Values = std::map<std::string, std::string>;

// Adds what `derive` names to the values:
//   multiples   of `batch` and `replicas`: `choices`, the multiples next to it, "96 or 104"
// Nothing where what it needs is not there or makes no sense.
void Derive(std::string_view derive, Values& values);
// The names that `derive` adds; empty: there is no such.
std::string_view DerivedBy(std::string_view derive);

// `text` with each {name} replaced; a name without a value stays as it is.
std::string Fill(std::string_view text, const Values& values);

}  // namespace torus::doctor

#endif  // TORUS_DOCTOR_VALUES_H_
