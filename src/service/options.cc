#include "service/options.h"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/installation.h"

namespace torus::service {
namespace {

namespace fs = std::filesystem;

std::string DefaultDataDir() {
  if (geteuid() == 0) return "/var/lib/torus";
  if (const char* data = std::getenv("XDG_DATA_HOME")) return fs::path(data) / "torus";
  const char* home = std::getenv("HOME");
  return fs::path(home == nullptr ? "." : home) / ".local/share/torus";
}

// CLI11 reads but a part of TOML, and forgives much; toml++ reads all of it and names the line.
class TomlConfig : public CLI::Config {
 public:
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items;
    try {
      for (const auto& [key, value] : toml::parse(input)) {
        const auto text = value.value<std::string>();
        if (!text)
          throw CLI::ConfigError(fmt::format("line {}: {} must be a text in quotes",
                                             value.source().begin.line, key.str()));
        items.push_back({.parents = {}, .name = std::string(key.str()), .inputs = {*text}});
      }
    } catch (const toml::parse_error& error) {
      throw CLI::ConfigError(
          fmt::format("line {}: {}", error.source().begin.line, error.description()));
    }
    return items;
  }
};

}  // namespace

int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  const auto* config = app.get_config_ptr();
  if (error.get_exit_code() == 0 || config == nullptr || config->count() == 0)
    return app.exit(error) == 0 ? 0 : 2;
  fmt::print(stderr, "error: {} (on the command line or in {})\n", error.what(),
             config->as<std::string>());
  return 2;
}

void AddOptions(CLI::App* app, Options* options) {
  options->data_dir = DefaultDataDir();
  options->backend = geteuid() == 0 ? "local" : "fake";
  options->libtpu = InstalledLibtpu();
  options->engine = fs::path(options->libtpu).parent_path() / "engine/xla_cpu.so";
  app->add_option("--listen", options->listen, "loopback address and port; port 0: any free one")
      ->capture_default_str();
  app->add_option("--allow-group", options->allow_group,
                  "group whose members may use the service, beside its own user and root");
  app->add_option("--data-dir", options->data_dir, "folder for records, images and VMs")
      ->capture_default_str();
  app->add_option("--backend", options->backend,
                  "local: TPU VMs on this machine (root); fake: nodes without VMs")
      ->check(CLI::IsMember({"local", "fake"}))
      ->capture_default_str();
  app->add_option("--catalogue", options->catalogue,
                  "TOML file with more zones, offers and runtime versions")
      ->check(CLI::ExistingFile);
  app->add_option("--libtpu", options->libtpu, "the libtpu.so that new TPU VMs get")
      ->capture_default_str();
  app->add_option("--engine", options->engine, "the PJRT plugin that libtpu.so runs on")
      ->capture_default_str();
  app->add_option("--log-level", options->log_level, "what is worth a line on stderr")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app->set_config("--config", "", "TOML file with these options, by their long names");
  app->config_formatter(std::make_shared<TomlConfig>());
  app->allow_config_extras(CLI::config_extras_mode::error);
}

}  // namespace torus::service
