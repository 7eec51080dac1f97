#include "service/backend/local/host_packages.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/text.h"

namespace torus::backend {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool IsSuiteOf(std::string_view name, std::string_view suite) {
  return name == suite || name == fmt::format("{}-updates", suite) ||
         name == fmt::format("{}-security", suite);
}

// One line for each suite of one entry; nothing for an entry that is not Debian's own.
void AddEntry(const std::string& uri, const std::vector<std::string>& suites,
              const std::vector<std::string>& components, std::string_view signed_by,
              std::string_view suite, std::vector<std::string>& lines) {
  const bool debians =
      signed_by.empty() || signed_by.find("/debian-archive-keyring") != std::string_view::npos;
  const std::string address = PublicAddress(uri);
  if (!debians || address.empty() || std::ranges::count(components, "main") == 0) return;
  for (const std::string& name : suites) {
    if (IsSuiteOf(name, suite))
      lines.push_back(fmt::format("deb {} {} {}", address, name, fmt::join(components, " ")));
  }
}

// "deb [option=value …] URI SUITE COMPONENT…"
void AddOneLine(std::string_view line, std::string_view suite, std::vector<std::string>& lines) {
  std::string_view options;
  std::string rest(line);
  const size_t open = rest.find('['), close = rest.find(']');
  if (open != std::string::npos && close != std::string::npos && open < close) {
    options = line.substr(open + 1, close - open - 1);
    rest.erase(open, close - open + 1);
  }
  const std::vector<std::string> words = Words(rest);
  if (words.size() < 4 || words[0] != "deb") return;
  const size_t signer = options.find("signed-by=");
  AddEntry(words[1], {words[2]}, {words.begin() + 3, words.end()},
           signer == std::string_view::npos ? "" : options.substr(signer), suite, lines);
}

// A stanza of fields, each "Name: value".
void AddStanza(std::map<std::string, std::string>& fields, std::string_view suite,
               std::vector<std::string>& lines) {
  const bool binary = std::ranges::count(Words(fields["types"]), "deb") != 0;
  if (binary && fields["enabled"] != "no") {
    for (const std::string& uri : Words(fields["uris"]))
      AddEntry(uri, Words(fields["suites"]), Words(fields["components"]), fields["signed-by"],
               suite, lines);
  }
  fields.clear();
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

const char* Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::vector<std::string> ReadSources(std::string_view suite) {
  std::vector<std::string> lines;
  const auto add = [&](const fs::path& path) {
    const auto text = ReadFile(path);
    if (!text) return;
    for (std::string& line : DebianSources(*text, path.extension() == ".sources", suite)) {
      if (std::ranges::count(lines, line) == 0) lines.push_back(std::move(line));
    }
  };
  add("/etc/apt/sources.list");
  std::set<fs::path> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/etc/apt/sources.list.d", error))
    parts.insert(entry.path());
  for (const fs::path& part : parts) add(part);
  return lines;
}

std::map<std::string, std::string> ReadPip() {
  std::map<std::string, std::string> options;
  std::vector<std::string> files = {"/etc/pip.conf"};
  if (const char* home = Variable("HOME")) {
    files.push_back(fmt::format("{}/.pip/pip.conf", home));
    files.push_back(fmt::format("{}/.config/pip/pip.conf", home));
  }
  if (const char* file = Variable("PIP_CONFIG_FILE")) files.push_back(file);
  for (const std::string& file : files) {
    const auto text = ReadFile(file);
    if (!text) continue;
    for (auto& [name, value] : PipOptions(*text)) options[name] = value;
  }
  std::string variables = "[global]\n";
  if (const char* value = Variable("PIP_INDEX_URL"))
    variables += fmt::format("index-url={}\n", value);
  if (const char* value = Variable("PIP_EXTRA_INDEX_URL"))
    variables += fmt::format("extra-index-url={}\n", value);
  for (auto& [name, value] : PipOptions(variables)) options[name] = value;
  return options;
}

std::map<std::string, std::string> ReadProxies() {
  std::map<std::string, std::string> proxies;
  for (const char* name : {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"}) {
    const char* value = Variable(name);
    const std::string address = PublicAddress(value == nullptr ? "" : value);
    if (!address.empty()) proxies[Lower(name)] = address;
  }
  if (proxies.empty()) return proxies;
  const char* direct = Variable("no_proxy") ? Variable("no_proxy") : Variable("NO_PROXY");
  proxies["no_proxy"] =
      fmt::format("localhost,127.0.0.1,169.254.169.254,metadata.google.internal{}{}",
                  direct ? "," : "", direct ? direct : "");
  return proxies;
}

std::string ReadBundle() {
  for (const char* path : {Variable("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt",
                           "/etc/pki/tls/certs/ca-bundle.crt"}) {
    if (path == nullptr) continue;
    auto text = ReadFile(path);
    if (text && !text->empty()) return *std::move(text);
  }
  return {};
}

}  // namespace

std::string PublicAddress(std::string_view url) {
  url = Trim(url);
  const size_t scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) return {};
  const std::string_view scheme = url.substr(0, scheme_end);
  if (scheme != "http" && scheme != "https") return {};
  std::string_view rest = url.substr(scheme_end + 3);
  std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const std::string_view path = rest.substr(authority.size());
  if (const size_t at = authority.rfind('@'); at != std::string_view::npos)
    authority.remove_prefix(at + 1);
  if (authority.empty() || authority.starts_with("127.") || authority.starts_with("localhost") ||
      authority.starts_with("[::1]"))
    return {};
  return fmt::format("{}://{}{}", scheme, authority, path.substr(0, path.find_first_of("?#")));
}

std::vector<std::string> DebianSources(std::string_view text, bool deb822, std::string_view suite) {
  std::vector<std::string> lines;
  std::map<std::string, std::string> fields;
  std::string field;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with('#')) continue;
    if (!deb822) {
      AddOneLine(std::string_view(line).substr(0, line.find('#')), suite, lines);
    } else if (Trim(line).empty()) {
      AddStanza(fields, suite, lines);
    } else if (line.starts_with(' ') || line.starts_with('\t')) {
      fields[field] += ' ' + std::string(Trim(line));
    } else if (const size_t colon = line.find(':'); colon != std::string::npos) {
      field = Lower(line.substr(0, colon));
      fields[field] = Trim(std::string_view(line).substr(colon + 1));
    }
  }
  if (deb822) AddStanza(fields, suite, lines);
  return lines;
}

std::map<std::string, std::string> PipOptions(std::string_view pip_conf) {
  std::map<std::string, std::string> options;
  bool wanted = false;
  std::string name;
  std::istringstream stream{std::string(pip_conf)};
  for (std::string line; std::getline(stream, line);) {
    const std::string_view trimmed = Trim(line);
    if (trimmed.empty() || trimmed[0] == '#' || trimmed[0] == ';') continue;
    if (trimmed[0] == '[') {
      wanted = trimmed == "[global]" || trimmed == "[install]";
      name.clear();
      continue;
    }
    std::string_view value = trimmed;
    if (line[0] != ' ' && line[0] != '\t') {
      const size_t equals = trimmed.find_first_of("=:");
      if (equals == std::string_view::npos) continue;
      name = Lower(std::string(Trim(trimmed.substr(0, equals))));
      std::ranges::replace(name, '_', '-');
      value = trimmed.substr(equals + 1);
    }
    if (!wanted || (name != "index-url" && name != "extra-index-url")) continue;
    for (const std::string& word : Words(value)) {
      const std::string address = PublicAddress(word);
      if (address.empty()) continue;
      std::string& all = options[name];
      all += (all.empty() || name == "index-url") ? "" : " ";
      all = name == "index-url" ? address : all + address;
    }
  }
  return options;
}

std::vector<std::string> Certificates(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
  constexpr std::string_view kEnd = "-----END CERTIFICATE-----";
  std::vector<std::string> certificates;
  size_t begin = 0;
  while ((begin = pem.find(kBegin, begin)) != std::string_view::npos) {
    const size_t end = pem.find(kEnd, begin);
    if (end == std::string_view::npos) break;
    certificates.push_back(std::string(pem.substr(begin, end + kEnd.size() - begin)) + "\n");
    begin = end;
  }
  return certificates;
}

HostPackages ReadHostPackages() {
  return {.apt_sources = ReadSources("bookworm"),
          .pip = ReadPip(),
          .environment = ReadProxies(),
          .ca_bundle = ReadBundle()};
}

}  // namespace torus::backend
