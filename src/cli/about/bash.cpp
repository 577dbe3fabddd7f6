#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "cli/about/shells.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kBashHead = R"bash(# Completion of plimsoll in bash. Written by: plimsoll completion bash

# The values of an option or of a job key: words, and whether they are files or folders.
_plimsoll_values() {  # COMMAND NAME
  words="" kind="" list=""
  case "$1 $2" in
)bash";

constexpr const char* kBashTail = R"bash(
# Prints the entries that begin with $1.
_plimsoll_files() { compgen -f -- "$1"; }
_plimsoll_folders() { compgen -d -- "$1"; }
_plimsoll_jobs() {
  compgen -f -X '!*.yaml' -- "$1"
  compgen -f -X '!*.yml' -- "$1"
  compgen -d -- "$1"
}

# Completes the value $3 of the option or key $2; $4 stands before each reply.
_plimsoll_value() {  # COMMAND NAME VALUE BEFORE
  local words kind list value=$3 before=$4 reply
  _plimsoll_values "$1" "$2"
  if [[ $list && $value == *,* ]]; then
    before+=${value%,*},
    value=${value##*,}
  fi
  while IFS= read -r reply; do COMPREPLY+=("$before$reply"); done < <(
    compgen -W "$words" -- "$value"
    [[ $kind ]] && "_plimsoll_$kind" "$value"
  )
  [[ $kind ]] && compopt -o filenames 2>/dev/null
}

_plimsoll() {
  local -a line=()
  local piece joined="" current command="" previous="" job="" at before words kind list
  # Bash splits words at "=": "memory_budget=2GiB" is three pieces. The words of the program are put together again.
  for ((at = 0; at <= COMP_CWORD; at++)); do
    piece=${COMP_WORDS[at]}
    if ((at > 0)) && [[ $joined || $piece == "="* ]]; then
      line[${#line[@]} - 1]+=$piece
    else
      line+=("$piece")
    fi
    [[ $piece == "=" ]] && joined=1 || joined=""
  done
  current=${line[${#line[@]} - 1]}
  for ((at = 1; at < ${#line[@]} - 1; at++)); do
    piece=${line[at]}
    if [[ $previous ]]; then
      previous=""
    elif [[ $piece == -*=* ]]; then
      :
    elif [[ $piece == -* ]]; then
      [[ " $(_plimsoll_with_value "$command") " == *" $piece "* ]] && previous=$piece
    elif [[ -z $command ]]; then
      command=$piece
    elif [[ $piece != *=* && $piece == *[!0-9]* ]]; then
      job=1
    fi
  done

  COMPREPLY=()
  if [[ $previous ]]; then
    _plimsoll_value "$command" "$previous" "$current" ""
  elif [[ $current == *=* ]]; then
    before=${current%%=*}=
    [[ $COMP_WORDBREAKS == *"="* ]] && before=""
    _plimsoll_value "$command" "${current%%=*}" "${current#*=}" "$before"
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$(_plimsoll_options "$command")" -- "$current"))
  elif [[ -z $command ]]; then
    COMPREPLY=($(compgen -W "$_plimsoll_commands" -- "$current"))
  elif [[ " $_plimsoll_with_job " != *" $command "* ]]; then
    _plimsoll_value "$command" "" "$current" ""
  elif [[ -z $job ]]; then
    while IFS= read -r piece; do COMPREPLY+=("$piece"); done < <(_plimsoll_jobs "$current")
    compopt -o filenames 2>/dev/null
  else
    COMPREPLY=($(compgen -S = -W "$_plimsoll_keys" -- "$current"))
    compopt -o nospace 2>/dev/null
  fi
}

complete -F _plimsoll plimsoll
)bash";

std::string settings_of(const ValueWords& values) {
  std::string text;
  if (!values.words.empty()) text += fmt::format("words='{}' ", fmt::join(values.words, " "));
  if (values.kind == ValueWords::Kind::files) text += "kind=files ";
  if (values.kind == ValueWords::Kind::folders) text += "kind=folders ";
  if (values.list) text += "list=1 ";
  return text.empty() ? text : text.substr(0, text.size() - 1);
}

std::vector<std::string> names_of(const std::vector<OptionWords>& options, bool with_value) {
  std::vector<std::string> names;
  for (const OptionWords& option : options)
    if (!with_value || option.values.kind != ValueWords::Kind::none)
      names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::string options_function(const ProgramWords& words, const char* name, bool with_value) {
  std::string text = fmt::format("\n{}() {{  # COMMAND\n  case \"$1\" in\n", name);
  text += fmt::format("    '') echo '{}' ;;\n", fmt::join(names_of(words.options, with_value), " "));
  for (const CommandWords& command : words.commands)
    text += fmt::format("    {}) echo '{}' ;;\n", command.name, fmt::join(names_of(command.options, with_value), " "));
  return text + "  esac\n}\n";
}

}  // namespace

std::string bash_completion(const ProgramWords& words) {
  // Names with the same values share a branch.
  std::map<std::string, std::vector<std::string>> branches;
  const auto add = [&](const ValueWords& values, std::string pattern) {
    if (const std::string settings = settings_of(values); !settings.empty())
      branches[settings].push_back(std::move(pattern));
  };
  for (const CommandWords& command : words.commands) {
    for (const OptionWords& option : command.options)
      for (const std::string& name : option.names) add(option.values, fmt::format("'{} {}'", command.name, name));
    add(command.argument, fmt::format("'{} '", command.name));
  }
  for (const KeyWords& key : words.keys) add(key.values, fmt::format("*' {}'", key.name));

  std::string text = kBashHead;
  for (const auto& [settings, patterns] : branches)
    text += fmt::format("    {}) {} ;;\n", fmt::join(patterns, " | "), settings);
  text += "  esac\n}\n";
  text += options_function(words, "_plimsoll_options", false);
  text += options_function(words, "_plimsoll_with_value", true);
  std::vector<std::string> commands, with_job, keys;
  for (const CommandWords& command : words.commands) {
    commands.push_back(command.name);
    if (command.takes_job) with_job.push_back(command.name);
  }
  for (const KeyWords& key : words.keys) keys.push_back(key.name);
  text += fmt::format("\n_plimsoll_commands='{}'\n_plimsoll_with_job='{}'\n_plimsoll_keys='{}'\n",
                      fmt::join(commands, " "), fmt::join(with_job, " "), fmt::join(keys, " "));
  return text + kBashTail;
}

}  // namespace plimsoll::cli
