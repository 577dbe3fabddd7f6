#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "cli/about/shells.h"

namespace plimsoll::cli {
namespace {

std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string fish_values(const ValueWords& values) {
  switch (values.kind) {
    case ValueWords::Kind::none:
      return "";
    case ValueWords::Kind::any:
      return " -x";
    case ValueWords::Kind::files:
      return " -r -F";
    case ValueWords::Kind::folders:
      return " -x -a '(__fish_complete_directories)'";
    case ValueWords::Kind::words:
      break;
  }
  const std::string words = fmt::format("{}", fmt::join(values.words, " "));
  return fmt::format(" -x -a {}", fish_quoted(values.list ? fmt::format("(__fish_append , {})", words) : words));
}

std::string fish_option(const OptionWords& option, const std::string& condition) {
  std::string text = "complete -c plimsoll";
  if (!condition.empty()) text += fmt::format(" -n '{}'", condition);
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
  return text + fmt::format("{} -d {}\n", fish_values(option.values), fish_quoted(short_meaning(option.meaning)));
}

std::string fish_keys(const std::vector<KeyWords>& keys) {
  std::string text =
      "function __plimsoll_overrides\n"
      "    set -l token (commandline -ct)\n"
      "    switch $token\n";
  for (const KeyWords& key : keys) {
    if (key.values.words.empty() && key.values.kind != ValueWords::Kind::files) continue;
    text += fmt::format("        case '{}=*'\n", key.name);
    if (!key.values.words.empty())
      text += fmt::format("            printf '{}=%s\\n' {}\n", key.name, fmt::join(key.values.words, " "));
    if (key.values.kind == ValueWords::Kind::files)
      text += fmt::format(
          "            for file in (string split -m 1 = -- $token)[2]*\n"
          "                printf '{}=%s\\n' $file\n"
          "            end\n",
          key.name);
  }
  text +=
      "        case '*=*'\n"
      "        case '*'\n";
  for (const KeyWords& key : keys)
    text += fmt::format("            printf '%s\\t%s\\n' {}= {}\n", key.name, fish_quoted(short_meaning(key.meaning)));
  return text +
         "    end\n"
         "end\n"
         "\n"
         "function __plimsoll_has_job\n"
         "    string match -qr '\\.ya?ml$' -- (commandline -opc)\n"
         "end\n";
}

}  // namespace

std::string fish_completion(const ProgramWords& words) {
  std::string text = "# Completion of plimsoll in fish. Written by: plimsoll completion fish\n\n";
  text += fish_keys(words.keys);
  text += "\ncomplete -c plimsoll -f\n";
  for (const OptionWords& option : words.options) text += fish_option(option, "__fish_use_subcommand");
  for (const CommandWords& command : words.commands) {
    text += fmt::format("\ncomplete -c plimsoll -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_quoted(short_meaning(command.meaning)));
    const std::string condition = "__fish_seen_subcommand_from " + command.name;
    for (const OptionWords& option : command.options) text += fish_option(option, condition);
    if (command.takes_job) {
      text += fmt::format(
          "complete -c plimsoll -n '{}; and not __plimsoll_has_job' -k -a '(__fish_complete_suffix "
          ".yaml .yml)' -d 'job file'\n",
          condition);
      text +=
          fmt::format("complete -c plimsoll -n '{}; and __plimsoll_has_job' -a '(__plimsoll_overrides)'\n", condition);
    } else if (command.argument.kind == ValueWords::Kind::files) {
      text += fmt::format("complete -c plimsoll -n '{}' -F\n", condition);
    } else if (!command.argument.words.empty()) {
      text += fmt::format("complete -c plimsoll -n '{}' -a {}\n", condition,
                          fish_quoted(fmt::format("{}", fmt::join(command.argument.words, " "))));
    }
  }
  return text;
}

}  // namespace plimsoll::cli
