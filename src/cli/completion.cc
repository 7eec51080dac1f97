// torus completion
#include "cli/completion.h"

#include <iostream>

#include "cli/commands.h"
#include "hardware/catalogue.h"

namespace torus::cli {
namespace {

constexpr const char* kValueFlags[] = {"--zone", "--accelerator-type", "--version",
                                       "--type", "--format",           "--strict-host-key-checking",
                                       "--shell"};

// A hidden command has no group.
bool Hidden(const CLI::App& command) { return command.get_group().empty(); }

void Visit(const CLI::App& app, const std::string& path, std::vector<CompletionNode>& nodes) {
  CompletionNode node;
  node.path = path;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!Hidden(*command))
      node.commands.emplace_back(command->get_name(), command->get_description());
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      node.flags.push_back(
          {"--" + name, option->get_description(), option->get_items_expected_max() > 0});
  }
  nodes.push_back(std::move(node));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!Hidden(*command))
      Visit(*command, path + (path.empty() ? "" : " ") + command->get_name(), nodes);
  }
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The first sentence, without what a shell would read as its own.
std::string Plain(std::string text) {
  text = text.substr(0, text.find(';'));
  std::erase_if(text, [](char c) { return c == '\'' || c == '`' || c == '"' || c == '\\'; });
  return text;
}

// The lines "path) words='…'" of a case statement.
std::string WordsCases(const std::vector<CompletionNode>& nodes) {
  std::string text;
  for (const CompletionNode& node : nodes) {
    std::vector<std::string> words;
    for (const auto& [name, help] : node.commands) words.push_back(name);
    for (const auto& flag : node.flags) words.push_back(flag.name);
    text += "    '" + node.path + "') words='" + Join(words) + "' ;;\n";
  }
  return text;
}

std::string ValuesCases() {
  std::string text;
  for (const char* flag : kValueFlags)
    text += std::string("    ") + flag + ") words='" + Join(FlagValues(flag)) + "' ;;\n";
  return text;
}

// Bash splits "--zone=us" into three words at "=", so the value's flag is one or two words back.
std::string BashScript(const std::vector<CompletionNode>& nodes) {
  std::string paths;
  for (const CompletionNode& node : nodes) {
    if (!node.path.empty()) paths += (paths.empty() ? "'" : "|'") + node.path + "'";
  }
  return R"(# bash completion for torus
_torus() {
  local current="${COMP_WORDS[COMP_CWORD]}" flag='' path='' words='' word i
  if [[ $current == = ]]; then
    flag="${COMP_WORDS[COMP_CWORD-1]}" current=''
  elif [[ ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then
    flag="${COMP_WORDS[COMP_CWORD-2]}"
  else
    flag="${COMP_WORDS[COMP_CWORD-1]}"
  fi
  case "$flag" in
)" + ValuesCases() +
         R"(  esac
  if [[ -z $words ]]; then
    for ((i = 1; i < COMP_CWORD; i++)); do
      word="${path:+$path }${COMP_WORDS[i]}"
      case "$word" in
      )" +
         paths +
         R"() path="$word" ;;
      esac
    done
    case "$path" in
)" + WordsCases(nodes) +
         R"(    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _torus torus
)";
}

std::string ZshScript(const std::vector<CompletionNode>& nodes) {
  return R"(#compdef torus
# zsh completion for torus, by way of its bash completion
autoload -U +X bashcompinit && bashcompinit
)" + BashScript(nodes);
}

std::string FishScript(const std::vector<CompletionNode>& nodes) {
  std::string text = "# fish completion for torus\nset -g __torus_paths";
  for (const CompletionNode& node : nodes) {
    if (!node.path.empty()) text += " '" + node.path + "'";
  }
  text += R"(
function __torus_path
    set -l path
    for word in (commandline -opc)[2..-1]
        contains -- (string join ' ' -- $path $word) $__torus_paths; and set -a path $word
    end
    string join ' ' -- $path
end
function __torus_at
    set -l path (__torus_path)
    test "$path" = "$argv[1]"; or string match -q -- "$argv[1] *" "$path"
end
function __torus_exactly
    set -l path (__torus_path)
    test "$path" = "$argv[1]"
end
complete -c torus -f
)";
  for (const CompletionNode& node : nodes) {
    for (const auto& [name, help] : node.commands) {
      text += "complete -c torus -n '__torus_exactly \"" + node.path + "\"' -a " + name + " -d '" +
              Plain(help) + "'\n";
    }
    for (const auto& flag : node.flags) {
      const std::string values = Join(FlagValues(flag.name));
      const char* condition = node.path.empty() ? "__torus_exactly" : "__torus_at";
      text += std::string("complete -c torus -n '") + condition + " \"" + node.path + "\"' -l " +
              flag.name.substr(2) + (flag.takes_value ? " -x" : "") +
              (values.empty() ? "" : " -a '" + values + "'") + " -d '" + Plain(flag.help) + "'\n";
    }
  }
  return text;
}

}  // namespace

std::vector<CompletionNode> CompletionTree(const CLI::App& root) {
  std::vector<CompletionNode> nodes;
  Visit(root, "", nodes);
  return nodes;
}

std::vector<std::string> FlagValues(std::string_view flag) {
  const auto& catalogue = hardware::Catalogue::BuiltIn();
  std::vector<std::string> values;
  if (flag == "--zone") {
    for (const auto& zone : catalogue.zones()) values.push_back(zone.name);
  } else if (flag == "--accelerator-type") {
    for (const auto& type : catalogue.accelerator_types()) values.push_back(type.name);
  } else if (flag == "--version") {
    for (const auto& version : catalogue.runtime_versions()) values.push_back(version.name);
  } else if (flag == "--type") {
    for (const auto& generation : catalogue.generations()) {
      if (!generation.api_name.empty()) values.push_back(generation.type_prefix);
    }
  } else if (flag == "--format") {
    values = {"json", "yaml", "table", "none"};
  } else if (flag == "--strict-host-key-checking") {
    values = {"yes", "no", "ask"};
  } else if (flag == "--shell") {
    values = {"bash", "zsh", "sh", "fish"};
  }
  return values;
}

Result<std::string> CompletionScript(const CLI::App& root, std::string_view shell) {
  const auto nodes = CompletionTree(root);
  if (shell == "bash") return BashScript(nodes);
  if (shell == "zsh") return ZshScript(nodes);
  if (shell == "fish") return FishScript(nodes);
  return InvalidArgument("there is completion for bash, zsh and fish, not for \"{}\"", shell);
}

void AddCompletion(CLI::App& parent, Invocation& invocation) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      AddCommand(parent, "completion", "Print the script by which a shell completes torus commands",
                 "  source <(torus completion bash)   # in ~/.bashrc; zsh alike, in ~/.zshrc\n"
                 "  torus completion fish > ~/.config/fish/completions/torus.fish");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""))
      ->required();
  command->callback([shell, &parent, &invocation] {
    invocation.run = [shell, &parent]() -> Result<int> {
      TORUS_ASSIGN_OR_RETURN(const std::string script, CompletionScript(parent, *shell));
      std::cout << script << std::flush;
      return kExitOk;
    };
  });
}

}  // namespace torus::cli
