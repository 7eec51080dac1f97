#include "doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.h"

namespace torus::doctor {
namespace {

constexpr int kScreen = 40;  // lines

template <typename Words, typename Value>
std::string_view WordOf(const Words& words, Value value) {
  return std::ranges::find(words, value, &Words::value_type::second)->first;
}

std::string_view NameOf(Severity severity) { return WordOf(kSeverities, severity); }
std::string_view NameOf(Confidence confidence) { return WordOf(kConfidences, confidence); }

std::string PageOf(const Finding& finding) { return "docs/doctor/" + finding.id + ".md"; }

// "  cure   first line" and the others below it.
std::string Paragraph(std::string_view name, std::string_view text) {
  std::string paragraph;
  for (text = Trim(text); !text.empty() || paragraph.empty();) {
    const size_t end = std::min(text.find('\n'), text.size());
    paragraph += fmt::format("  {:<7}{}\n", paragraph.empty() ? name : "", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return paragraph;
}

std::string ToText(const Finding& finding, bool colour) {
  const std::string_view bold = colour ? "\x1b[1m" : "", plain = colour ? "\x1b[0m" : "";
  const std::string_view tint = !colour                                ? ""
                                : finding.severity == Severity::kError ? "\x1b[31m"
                                                                       : "\x1b[33m";
  std::string text = fmt::format("{}{}{}{}: {}{}{}\n", tint, bold, NameOf(finding.severity), plain,
                                 bold, finding.cause, plain);
  for (const auto& seen : finding.evidence) {
    const auto times = seen.times > 1 ? fmt::format("   ({} times)", seen.times) : "";
    const auto where = seen.line > 0 ? fmt::format("{}:{}", seen.source, seen.line) : seen.source;
    text += Paragraph("seen", fmt::format("{}: {}{}", where, seen.text.substr(0, 160), times));
  }
  text += Paragraph("cure", finding.cure);
  text += Paragraph("check", finding.check);
  text += fmt::format("  {} {}, {}; {}\n", finding.id, finding.name, NameOf(finding.confidence),
                      PageOf(finding));
  return text;
}

}  // namespace

std::string ToText(const std::vector<Finding>& findings, const std::string& healthy, bool colour) {
  if (findings.empty()) return healthy + "\n";
  std::string text;
  int64_t lines = 0;
  for (size_t i = 0; i < findings.size(); ++i) {
    const std::string one = ToText(findings[i], colour) + "\n";
    lines += std::ranges::count(one, '\n');
    if (i > 0 && lines > kScreen) {
      return text + fmt::format("{} more: --format=json has all.\n", findings.size() - i);
    }
    text += one;
  }
  text.pop_back();
  return text;
}

std::string ToJson(const std::vector<Finding>& findings) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& finding : findings) {
    auto evidence = nlohmann::ordered_json::array();
    for (const auto& seen : finding.evidence)
      evidence.push_back({{"source", seen.source},
                          {"line", seen.line},
                          {"text", seen.text},
                          {"times", seen.times}});
    list.push_back({{"id", finding.id},
                    {"name", finding.name},
                    {"severity", NameOf(finding.severity)},
                    {"confidence", NameOf(finding.confidence)},
                    {"cause", finding.cause},
                    {"evidence", evidence},
                    {"cure", Trim(finding.cure)},
                    {"check", finding.check},
                    {"page", PageOf(finding)}});
  }
  const nlohmann::ordered_json all = {{"findings", list}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace torus::doctor
