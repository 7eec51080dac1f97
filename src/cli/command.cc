// The shared flags and where their defaults come from.
#include "cli/command.h"

#include <pwd.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "cli/format.h"

namespace torus::cli {
namespace {

constexpr char kDefaultEndpoint[] = "http://127.0.0.1:7470";
constexpr char kDefaultProject[] = "torus";

// The first of the values that is not empty.
std::string FirstOf(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return {};
}

}  // namespace

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<std::string> HomeFolder() {
  if (std::string home = Environment("HOME"); !home.empty()) return home;
  const passwd* entry = getpwuid(geteuid());
  if (entry && entry->pw_dir && *entry->pw_dir) return std::string(entry->pw_dir);
  return FailedPrecondition("cannot tell where your home folder is; set HOME");
}

CLI::Validator PositiveNumber() {
  const auto check = [](const std::string& text) -> std::string {
    int number = 0;
    const char* const end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && next == end && number > 0 ? "" : "must be a positive number";
  };
  return CLI::Validator(check, "");
}

void CommonFlags::Resolve(const Invocation& invocation, ZoneFlag zone_flag) {
  const CommonFlags& before = invocation.before;
  endpoint = FirstOf({endpoint, before.endpoint, Environment("TORUS_ENDPOINT"), kDefaultEndpoint});
  project =
      FirstOf({project, before.project, Environment("CLOUDSDK_CORE_PROJECT"), kDefaultProject});
  format = FirstOf({format, before.format});
  quiet = quiet || before.quiet;
  if (zone_flag != ZoneFlag::kNone)
    zone = FirstOf({zone, Environment("TORUS_ZONE"), Environment("CLOUDSDK_COMPUTE_ZONE")});
  if (zone.empty() && zone_flag == ZoneFlag::kOrAll) zone = "-";
  if (zone.empty() && zone_flag == ZoneFlag::kRequired) {
    throw CLI::ValidationError("--zone",
                               "give a zone, such as --zone=us-central1-a, or set "
                               "CLOUDSDK_COMPUTE_ZONE; `torus locations list` lists them");
  }
  if (const auto parsed = Format::Parse(format); !parsed)
    throw CLI::ValidationError("--format", parsed.error().message());
}

CLI::App* AddGroup(CLI::App& parent, Invocation& invocation, const std::string& name,
                   const std::string& help, const std::string& examples) {
  CLI::App* group = AddCommand(parent, name, help, examples);
  group->require_subcommand(1);
  AddCommonFlags(*group, invocation.before, ZoneFlag::kNone);
  return group;
}

CLI::App* AddCommand(CLI::App& parent, const std::string& name, const std::string& help,
                     const std::string& examples) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->group("Commands");
  command->get_help_ptr()->group("Flags");
  if (!examples.empty()) command->footer("Examples:\n" + examples);
  return command;
}

void AddCommonFlags(CLI::App& command, CommonFlags& flags, ZoneFlag zone_flag) {
  if (zone_flag != ZoneFlag::kNone) {
    command
        .add_option("--zone", flags.zone,
                    zone_flag == ZoneFlag::kOrAll
                        ? "The zone; else TORUS_ZONE or CLOUDSDK_COMPUTE_ZONE, else all zones"
                        : "The zone; else TORUS_ZONE or CLOUDSDK_COMPUTE_ZONE")
        ->type_name("ZONE");
  }
  command
      .add_option(
          "--endpoint", flags.endpoint,
          "The service's address; else TORUS_ENDPOINT, else " + std::string(kDefaultEndpoint))
      ->type_name("URL")
      ->group(kCommonGroup);
  command
      .add_option("--project", flags.project,
                  "The project; else CLOUDSDK_CORE_PROJECT, else " + std::string(kDefaultProject))
      ->type_name("PROJECT")
      ->group(kCommonGroup);
  command
      .add_option("--format", flags.format,
                  "json, yaml, table, none, value(KEY, …) or table(KEY:label=TITLE, …)")
      ->type_name("FORMAT")
      ->group(kCommonGroup);
  command.add_flag("-q,--quiet", flags.quiet, "Ask nothing; take the default answers")
      ->group(kCommonGroup);
}

CLI::Option* AddRepeated(CLI::App& command, const std::string& name,
                         std::vector<std::string>& values, const std::string& help) {
  return command.add_option(name, values, help)->allow_extra_args(false)->take_all();
}

std::string CommandPath(const CLI::App& root) {
  std::string path = "torus";
  const CLI::App* command = &root;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += "." + command->get_name();
  }
  return path;
}

}  // namespace torus::cli
