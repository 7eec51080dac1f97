// Findings as a person or a script reads them.
//
// Pure; thread-safe.
#ifndef TORUS_DOCTOR_REPORT_H_
#define TORUS_DOCTOR_REPORT_H_

#include <string>
#include <vector>

#include "doctor/finding.h"

namespace torus::doctor {

// A screen at most: the worst findings in full, as many as fit, then a line that counts the others.
// `healthy` is said where there are none.
std::string ToText(const std::vector<Finding>& findings, const std::string& healthy, bool colour);

// {"findings": [{"id", "name", "severity", "confidence", "cause", "evidence": [{"source", "line",
// "text", "times"}], "cure", "check", "page"}]}, indented, with a newline at its end. UTF-8,
// whatever the log had.
std::string ToJson(const std::vector<Finding>& findings);

}  // namespace torus::doctor

#endif  // TORUS_DOCTOR_REPORT_H_
