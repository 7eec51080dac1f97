// What `torus serve` is told: flags, or the same names in a TOML file.
#ifndef TORUS_SERVICE_OPTIONS_H_
#define TORUS_SERVICE_OPTIONS_H_

#include <string>

#include "CLI/CLI.hpp"

namespace torus::service {

struct Options {
  std::string listen = "127.0.0.1:7470";
  std::string allow_group;  // of users of this machine who may connect, beside the service's own
  std::string data_dir;     // default: /var/lib/torus for root, ~/.local/share/torus otherwise
  std::string backend;      // "local" or "fake"; default: local for root, fake otherwise
  std::string catalogue;    // a TOML file with more zones, offers and runtime versions
  std::string libtpu;       // default: beside this program, or in its prefix
  std::string engine;
  std::string log_level = "info";
};

// Adds the flags to `app`, which fills `options` when it parses; defaults that depend on the user
// and on where the program is are set at once.
void AddOptions(CLI::App* app, Options* options);

// Prints what CLI11 found wrong, or the help that was asked for; names the file that may be to
// blame. Returns the exit status: 0 for help, 2 for a mistake.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace torus::service

#endif  // TORUS_SERVICE_OPTIONS_H_
