#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string_view>
#include <vector>

#include "cli/about/shells.h"

namespace plimsoll::cli {
namespace {

// Returns the text in single quotes of zsh. Such a text cannot contain a single quote.
std::string zsh_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string with_backslashes(std::string_view text, std::string_view special) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || special.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Returns the last part of a specification of _arguments: ":FILE:_files".
std::string zsh_action(const std::string& name, const ValueWords& values) {
  std::string action = " ";
  if (values.kind == ValueWords::Kind::files) action = "_files";
  if (values.kind == ValueWords::Kind::folders) action = "_files -/";
  if (values.kind == ValueWords::Kind::words) {
    const std::string words = fmt::format("{}", fmt::join(values.words, " "));
    action = values.list ? fmt::format("_sequence compadd - {}", words) : fmt::format("({})", words);
  }
  return fmt::format(":{}:{}", with_backslashes(name, ":"), action);
}

std::string zsh_option(const OptionWords& option, const std::string& name) {
  const bool has_value = option.values.kind != ValueWords::Kind::none;
  std::string text = option.may_be_repeated ? "*" : fmt::format("({})", fmt::join(option.names, " "));
  text += name;
  if (has_value && name.starts_with("--")) text += "=";
  text += fmt::format("[{}]", with_backslashes(short_meaning(option.meaning), "[]:"));
  if (has_value) text += zsh_action(option.value, option.values);
  return zsh_quoted(text);
}

std::string zsh_options(const std::vector<OptionWords>& options, const char* indent) {
  std::string text;
  for (const OptionWords& option : options)
    for (const std::string& name : option.names) text += fmt::format(" \\\n{}{}", indent, zsh_option(option, name));
  return text;
}

std::string zsh_keys(const std::vector<KeyWords>& keys) {
  std::map<std::string, std::vector<std::string>> branches;
  for (const KeyWords& key : keys) {
    std::string action;
    if (!key.values.words.empty()) action += fmt::format("compadd -- {}; ", fmt::join(key.values.words, " "));
    if (key.values.kind == ValueWords::Kind::files) action += "_files; ";
    if (!action.empty()) branches[action].push_back(key.name);
  }
  std::string text =
      "_plimsoll_overrides() {\n"
      "  local -a keys\n"
      "  if compset -P 1 '*='; then\n"
      "    case ${IPREFIX%=} in\n";
  for (const auto& [action, names] : branches) text += fmt::format("      ({}) {};;\n", fmt::join(names, "|"), action);
  text +=
      "    esac\n"
      "    return\n"
      "  fi\n"
      "  keys=(\n";
  for (const KeyWords& key : keys)
    text += fmt::format("    {}\n", zsh_quoted(key.name + ":" + with_backslashes(short_meaning(key.meaning), "")));
  return text +
         "  )\n"
         "  _describe -t keys 'key of the job file' keys -S =\n"
         "}\n";
}

}  // namespace

std::string zsh_completion(const ProgramWords& words) {
  std::string text = "#compdef plimsoll\n# Completion of plimsoll in zsh. Written by: plimsoll completion zsh\n\n";
  text += zsh_keys(words.keys);
  text +=
      "\n"
      "_plimsoll() {\n"
      "  local curcontext=$curcontext state line ret=1\n"
      "  local -a commands\n"
      "  _arguments -C";
  text += zsh_options(words.options, "    ");
  text +=
      " \\\n    '1: :->command' '*:: :->argument' && ret=0\n"
      "  case $state in\n"
      "    (command)\n"
      "      commands=(\n";
  for (const CommandWords& command : words.commands)
    text += fmt::format("        {}\n", zsh_quoted(command.name + ":" + short_meaning(command.meaning)));
  text +=
      "      )\n"
      "      _describe -t commands command commands && ret=0\n"
      "      ;;\n"
      "    (argument)\n"
      "      case $words[1] in\n";
  for (const CommandWords& command : words.commands) {
    text += fmt::format("        ({})\n          _arguments", command.name);
    text += zsh_options(command.options, "            ");
    if (command.takes_job)
      text +=
          " \\\n            '1:job file:_files -g \"*.(yaml|yml)\"'"
          " \\\n            '*:override:_plimsoll_overrides'";
    else if (command.argument.kind != ValueWords::Kind::none)
      text += fmt::format(" \\\n            {}", zsh_quoted("*" + zsh_action(command.argument_name, command.argument)));
    text += " && ret=0\n          ;;\n";
  }
  return text +
         "      esac\n"
         "      ;;\n"
         "  esac\n"
         "  return ret\n"
         "}\n"
         "\n"
         "# Completion calls the file as a function. If the text is evaluated, it registers the function.\n"
         "if [[ $funcstack[1] == _plimsoll ]]; then\n"
         "  _plimsoll \"$@\"\n"
         "else\n"
         "  compdef _plimsoll plimsoll\n"
         "fi\n";
}

}  // namespace plimsoll::cli
