// torus man: the manual page, from the tree of commands.
#include <iostream>

#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/help.h"
#include "cli/version.h"

namespace torus::cli {
namespace {

// Text that roff prints as it is.
std::string Roff(std::string_view text) {
  std::string roff;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) roff += "\\&";
    if (c == '\\') roff += "\\e";
    if (c == '-') roff += "\\-";
    if (c != '\\' && c != '-') roff += c;
    line_start = c == '\n';
  }
  return roff;
}

bool IsCommon(const CLI::Option& option) { return option.get_group() == kCommonGroup; }

// The arguments and flags, either those of every command or the others.
void Flags(const CLI::App& app, bool common, std::string& text) {
  for (const CLI::Option* option : app.get_options()) {
    const bool positional = option->get_positional();
    if (IsCommon(*option) != common || option == app.get_help_ptr()) continue;
    text += ".TP\n\\fB" +
            Roff(positional ? option->get_type_name() : option->get_name(false, true)) + "\\fR";
    if (!positional && option->get_items_expected_max() > 0)
      text += "=\\fI" + Roff(option->get_type_name()) + "\\fR";
    text += "\n" + Roff(OptionHelp(*option)) + "\n";
  }
}

void Commands(const CLI::App& app, const std::string& path, std::string& text) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    const std::string name = path + " " + command->get_name();
    if (!command->get_subcommands([](const CLI::App*) { return true; }).empty()) {
      Commands(*command, name, text);
      continue;
    }
    text +=
        ".SS " + Roff(UsageLine(*command, name)) + "\n" + Roff(command->get_description()) + ".\n";
    Flags(*command, false, text);
    if (!command->get_footer().empty())
      text += ".PP\n.nf\n" + Roff(command->get_footer()) + "\n.fi\n";
  }
}

constexpr char kEnd[] = R"(.SH ENVIRONMENT
.TP
.B TORUS_ENDPOINT
The service's address, http://127.0.0.1:7470 if unset.
.TP
.BR TORUS_ZONE ", " CLOUDSDK_COMPUTE_ZONE
The zone of a command that is given none.
.TP
.B CLOUDSDK_CORE_PROJECT
The project of a command that is given none.
.SH FILES
.TP
.I ~/.ssh/google_compute_engine
The SSH key for TPU VMs, the same as gcloud's.
.TP
.I ~/.ssh/google_compute_known_hosts
The host keys of TPU VMs.
.TP
.I ~/.config/torus/gcloud
The configuration of gcloud while it is pointed here.
.SH EXIT STATUS
0 on success, 1 on an error of the service or an operation, 2 on a wrong command line, 130 on
Ctrl\-C. \fBssh\fR and \fBscp\fR exit as OpenSSH does: with the status of the remote command.
)";

}  // namespace

std::string ManPage(const CLI::App& root) {
  std::string text =
      std::string(".TH TORUS 1 \"\" \"torus ") + Version() +
      "\" \"User Commands\"\n.SH NAME\ntorus \\- TPU as a service on machines you "
      "own\n.SH SYNOPSIS\n.B torus\n\\fICOMMAND\\fR [\\fIFLAG\\fR ...]\n"
      ".SH DESCRIPTION\n" +
      Roff(root.get_description()) + "\n.PP\n.nf\n" + Roff(root.get_footer()) +
      "\n.fi\n.SH FLAGS\nEvery command that talks to the service takes these, before "
      "or after its name.\n";
  Flags(root, true, text);
  text += ".SH COMMANDS\n";
  Commands(root, "torus", text);
  return text + kEnd;
}

void AddMan(CLI::App& parent, Invocation& invocation) {
  CLI::App* command = AddCommand(parent, "man", "Print the manual page", "  torus man | man -l -");
  command->group("");  // for packagers: not in the help
  command->callback([&parent, &invocation] {
    invocation.run = [&parent]() -> Result<int> {
      std::cout << ManPage(parent) << std::flush;
      return kExitOk;
    };
  });
}

}  // namespace torus::cli
