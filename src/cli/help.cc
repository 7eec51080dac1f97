// CLI11's formatter says the name, the type and the rules of an option in one breath; this one
// keeps them apart.
#include "cli/help.h"

namespace torus::cli {
namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    // Two groups of flags stand one line apart, not two.
    return CLI::detail::find_and_replace(CLI::Formatter::make_help(app, std::move(name), mode),
                                         "\n\n\n", "\n\n");
  }

  std::string make_usage(const CLI::App* app, std::string path) const override {
    return "\nUsage: " + UsageLine(*app, path) + "\n";
  }

  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    return positional ? option->get_type_name()
                      : CLI::Formatter::make_option_name(option, positional);
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    const bool flag_with_value = option->get_items_expected_max() > 0 && option->nonpositional();
    return flag_with_value ? " " + option->get_type_name() : "";
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return OptionHelp(*option);
  }
};

}  // namespace

std::shared_ptr<CLI::Formatter> MakeHelpFormatter() {
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(34);
  formatter->label("Positionals", "Arguments");
  return formatter;
}

std::string UsageLine(const CLI::App& command, const std::string& path) {
  std::string line = path;
  if (command.get_require_subcommand_min() > 0) line += " COMMAND";
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional())
      line += option->get_required() ? " " + option->get_type_name()
                                     : " [" + option->get_type_name() + "]";
  }
  return line + " [FLAGS]";
}

std::string OptionHelp(const CLI::Option& option) {
  std::string help = option.get_description();
  if (!option.get_default_str().empty()) help += "; " + option.get_default_str() + " if not given";
  if (option.get_required() && option.nonpositional()) help += "; required";
  std::string others;
  for (const CLI::Option* other : option.get_excludes())
    others += (others.empty() ? "; not with " : ", ") + other->get_name();
  return help + others;
}

}  // namespace torus::cli
