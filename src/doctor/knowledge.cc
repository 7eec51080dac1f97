#include "doctor/knowledge.h"

#include <re2/re2.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace torus::doctor {
namespace {

constexpr char kKnowledge[] =
#include "knowledge.inc"
    ;

// Logs have any bytes in them.
RE2::Options Options() {
  RE2::Options options(RE2::Latin1);
  options.set_log_errors(false);
  options.set_max_mem(int64_t{64} << 20);
  return options;
}

constexpr std::string_view kFact = "fact: ";  // before a pattern of facts

}  // namespace

// Reads one text into a Knowledge; errors name the place.
class KnowledgeReader {
 public:
  using Scope = Knowledge::Scope;
  explicit KnowledgeReader(Scope scope) : scope_(scope) {}

  Result<Knowledge> Read(const toml::table& root) {
    const auto* list = root["finding"].as_array();
    if (list == nullptr) return At(root, "there are no [[finding]] tables");
    for (const auto& node : *list) {
      const auto* table = node.as_table();
      if (table == nullptr) return At(node, "a finding is a table");
      if (scope_ == Scope::kFacts && !IsOfFacts(*table)) continue;
      TORUS_RETURN_IF_ERROR(ReadKind(*table));
    }
    auto set = std::make_shared<RE2::Set>(Options(), RE2::UNANCHORED);
    for (const auto& pattern : all_.patterns_) set->Add(pattern->pattern(), nullptr);
    if (!set->Compile()) return Internal("the patterns need too much memory together");
    all_.set_ = std::move(set);
    return std::move(all_);
  }

 private:
  template <typename... Args>
  static Error At(const toml::node& node, fmt::format_string<Args...> format, Args&&... args) {
    return InvalidArgument("knowledge.toml:{}: {}", node.source().begin.line,
                           fmt::format(format, std::forward<Args>(args)...));
  }

  static bool IsOfFacts(const toml::table& table) {
    const auto* signs = table["signs"].as_array();
    return signs != nullptr && std::ranges::any_of(*signs, [](const toml::node& sign) {
             return sign.value_or(std::string_view()).starts_with(kFact);
           });
  }

  Status ReadKind(const toml::table& table) {
    Kind kind;
    for (const auto& [name, node] : table) {
      TORUS_RETURN_IF_ERROR(ReadField(name.str(), node, kind));
    }
    for (const auto& [name, text] : {std::pair{"id", &kind.id},
                                     {"name", &kind.name},
                                     {"cause", &kind.cause},
                                     {"cure", &kind.cure},
                                     {"check", &kind.check}}) {
      if (text->empty()) return At(table, "a finding needs its {}", name);
    }
    if (kind.signs.empty()) return At(table, "{} has no signs", kind.id);
    if (std::ranges::find(all_.kinds_, kind.id, &Kind::id) != all_.kinds_.end())
      return At(table, "{} is there twice", kind.id);
    all_.kinds_.push_back(std::move(kind));
    return {};
  }

  Status ReadField(std::string_view name, const toml::node& node, Kind& kind) {
    for (const auto& [known, text] : {std::pair{"id", &kind.id},
                                      {"name", &kind.name},
                                      {"cause", &kind.cause},
                                      {"cure", &kind.cure},
                                      {"check", &kind.check},
                                      {"derive", &kind.derive},
                                      {"example", &kind.example}}) {
      if (name == known) return ReadText(node, *text);
    }
    for (const auto& [known, patterns] :
         {std::pair{"signs", &kind.signs}, {"with", &kind.with}, {"unless", &kind.unless}}) {
      if (name == known) return ReadPatterns(node, *patterns);
    }
    if (name == "severity") return ReadWord(node, kSeverities, kind.severity);
    if (name == "confidence") return ReadWord(node, kConfidences, kind.confidence);
    if (name == "times") {
      kind.times = node.value_or(int64_t{0});
      return kind.times > 0 ? Status() : At(node, "times is a number from 1");
    }
    if (name == "hides") return ReadTexts(node, kind.hides);
    if (name == "defaults") return ReadDefaults(node, kind.defaults);
    if (name == "more") return {};  // the page's
    return At(node, "unknown key \"{}\"", name);
  }

  static Status ReadText(const toml::node& node, std::string& text) {
    if (!node.is_string()) return At(node, "this is a text");
    text = **node.as_string();
    return {};
  }

  static Status ReadTexts(const toml::node& node, std::vector<std::string>& texts) {
    const auto* list = node.as_array();
    if (list == nullptr) return At(node, "this is a list of texts");
    for (const auto& each : *list) TORUS_RETURN_IF_ERROR(ReadText(each, texts.emplace_back()));
    return {};
  }

  static Status ReadDefaults(const toml::node& node, std::map<std::string, std::string>& values) {
    const auto* table = node.as_table();
    if (table == nullptr) return At(node, "defaults is a table of texts");
    for (const auto& [name, value] : *table)
      TORUS_RETURN_IF_ERROR(ReadText(value, values[std::string(name.str())]));
    return {};
  }

  Status ReadPatterns(const toml::node& node, std::vector<int>& patterns) {
    std::vector<std::string> texts;
    TORUS_RETURN_IF_ERROR(ReadTexts(node, texts));
    for (std::string_view text : texts) {
      all_.of_facts_.push_back(text.starts_with(kFact));
      if (all_.of_facts_.back()) text.remove_prefix(kFact.size());
      auto pattern = std::make_shared<RE2>(std::string(text), Options());
      if (!pattern->ok()) return At(node, "\"{}\" is no pattern: {}", text, pattern->error());
      patterns.push_back(static_cast<int>(all_.patterns_.size()));
      all_.patterns_.push_back(std::move(pattern));
    }
    return {};
  }

  template <typename Words, typename Value>
  static Status ReadWord(const toml::node& node, const Words& words, Value& value) {
    const auto text = node.value_or(std::string_view());
    for (const auto& [word, meaning] : words) {
      if (text != word) continue;
      value = meaning;
      return {};
    }
    return At(node, "unknown word \"{}\"", text);
  }

  const Scope scope_;
  Knowledge all_;
};

Result<Knowledge> Knowledge::Parse(std::string_view text, Scope scope) {
  try {
    return KnowledgeReader(scope).Read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return InvalidArgument("knowledge.toml:{}: {}", error.source().begin.line, error.description());
  }
}

namespace {

const Knowledge& ReadBuiltIn(Knowledge::Scope scope) {
  auto read = Knowledge::Parse(kKnowledge, scope);
  if (!read) {  // a test reads it
    fmt::print(stderr, "{}\n", read.error().message());
    std::abort();
  }
  return *new Knowledge(*std::move(read));
}

}  // namespace

const Knowledge& Knowledge::BuiltIn() {
  static const Knowledge& knowledge = ReadBuiltIn(Scope::kAll);
  return knowledge;
}

const Knowledge& Knowledge::OfFacts() {
  static const Knowledge& knowledge = ReadBuiltIn(Scope::kFacts);
  return knowledge;
}

std::vector<int> Knowledge::Match(std::string_view text, bool is_fact) const {
  std::vector<int> matching;
  set_->Match(text, &matching);
  std::erase_if(matching, [&](int pattern) { return of_facts_[pattern] != is_fact; });
  return matching;
}

std::map<std::string, std::string> Knowledge::Capture(int pattern, std::string_view line) const {
  const RE2& expression = *patterns_[pattern];
  std::vector<re2::StringPiece> groups(expression.NumberOfCapturingGroups() + 1);
  std::map<std::string, std::string> values;
  if (!expression.Match(line, 0, line.size(), RE2::UNANCHORED, groups.data(),
                        static_cast<int>(groups.size())))
    return values;
  for (const auto& [name, number] : expression.NamedCapturingGroups())
    if (!groups[number].empty()) values[name] = std::string(groups[number]);
  return values;
}

std::vector<std::string> Knowledge::NamesOf(int pattern) const {
  std::vector<std::string> names;
  for (const auto& [name, number] : patterns_[pattern]->NamedCapturingGroups())
    names.push_back(name);
  return names;
}

}  // namespace torus::doctor
