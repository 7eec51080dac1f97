// A log, of any bytes: its lines are lines, and what is found in it says all that it means to.
#include "doctor/diagnosis.h"
#include "doctor/log_text.h"
#include "doctor/report.h"
#include "fuzz.h"

namespace torus::fuzz {

void Fuzz(std::string_view input) {
  doctor::Diagnosis diagnosis;
  doctor::LogText text([&](std::string_view line) {
    Check(line.size() <= doctor::kMaxLine, "{} bytes are a line", line.size());
    Check(line.find_first_of("\n\r\x1b") == line.npos, "it is one line");
    diagnosis.AddLine("log", line);
  });
  // In two pieces, as a pipe may give it.
  text.Add(input.substr(0, input.size() / 2));
  text.Add(input.substr(input.size() / 2));
  text.End();
  const auto findings = diagnosis.Findings();
  for (const auto& finding : findings) {
    Check(!finding.evidence.empty() && finding.evidence[0].line <= diagnosis.lines(),
          "it was seen");
    Check(finding.evidence[0].text.size() <= doctor::kMaxEvidence, "what was seen is short");
  }
  const auto report = doctor::ToText(findings, "well", false);
  for (const char c : report)
    Check(c == '\n' || static_cast<unsigned char>(c) >= 0x20, "it moves no cursor");
  (void)doctor::ToJson(findings);
}

}  // namespace torus::fuzz
