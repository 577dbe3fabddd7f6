// Implements plimsoll completion: writes the completion script of a shell, or the manual page. The scripts of all
// shells have one table, which is made from the commands of the program and the keys of the job file.
#include <embedded/completion.h>  // the scripts of this folder (cmake/Embed.cmake)
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/value_checks.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {
namespace {

constexpr size_t kMaxMeaning = 80;  // characters

constexpr const char* kCompletionExamples =
    "Examples:\n"
    "  source <(plimsoll completion bash)       in ~/.bashrc\n"
    "  source <(plimsoll completion zsh)        in ~/.zshrc, after compinit\n"
    "  plimsoll completion fish | source        in ~/.config/fish/config.fish\n"
    "  plimsoll completion man >plimsoll.1      the manual page; read it: man -l plimsoll.1\n"
    "\n"
    "The installation has these files too (docs/install.md).";

// Values of an option, an argument or a key, as far as a shell can offer some.
struct Values {
  std::string_view kind;           // any, words, list (words, separated by commas), files, folders or jobs; empty: none
  std::vector<std::string> words;  // for kind files: offered in addition to the files
};

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.emplace_back(part);
    begin = end + separator.size();
  }
  return parts;
}

// Returns true if a value is this text itself: "bf16-mixed", but not "FILE" or "integer from 1".
bool is_word(std::string_view text) {
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  });
}

void add_word(std::vector<std::string>& words, const std::string& word) {
  if (is_word(word) && std::ranges::find(words, word) == words.end()) words.push_back(word);
}

// Returns the values that a job key of this type can have: "auto | 32-true | path".
Values values_of_type(std::string_view type) {
  Values values{"any", {}};
  for (std::string variant : split(type, ";")) {
    // "decoder, mamba: integer from 1 to 4096": the type for these kinds of models.
    if (const size_t colon = variant.find(": "); colon != std::string::npos && variant.find('|') > colon)
      variant.erase(0, colon + 2);
    const std::vector<std::string> alternatives = split(variant, "|");
    for (const std::string& alternative : alternatives) {
      if (alternative.ends_with(" or none")) add_word(values.words, "none");
      if (alternative == "path")
        values.kind = "files";
      else if (alternative != "pattern" && alternatives.size() > 1)
        add_word(values.words, alternative);
    }
  }
  if (values.kind == "any" && !values.words.empty()) values.kind = "words";
  return values;
}

// Returns the text of the value in the help, without the range: "FILE|-", "N" of "N:from 1 to 4096".
std::string value_text(const CLI::Option& option) {
  const std::string text = option.get_option_text();
  return text.empty() ? option.get_type_name().substr(0, option.get_type_name().find(':')) : text;
}

// Returns the key that an option sets: the key with its name, or the first word of its meaning ("batch_size: samples
// …").
const KeyHelp* key_of(const std::string& option, const std::string& meaning) {
  const std::string named = meaning.substr(0, meaning.find(':'));
  const std::string same = option.starts_with("--") ? option.substr(2) : "";
  for (const KeyHelp& key : job_keys())
    if (key.key == named || key.key == same) return &key;
  return nullptr;
}

Values values_of(const CLI::Option& option) {
  // Names of the last spelling: "--batch_size" of "--batch-size,--batch_size".
  const std::string name = option.get_lnames().empty() ? option.get_name(true) : "--" + option.get_lnames().back();
  const std::string text = value_text(option);
  Values values{"any", {}};
  if (name == "JOB.yaml") return {"jobs", {}};
  if (name == "--gpu" || name == "PATTERN") {
    for (const DeviceSpec& device : device_catalogue()) values.words.push_back(device.id);
    values.kind = text.find(',') != std::string::npos ? "list" : "words";
  } else if (name == "--link" || name == "--network") {
    for (const LinkSpec& link : link_catalogue())
      if (link.between_machines == (name == "--network")) values.words.push_back(link.id);
    values.kind = "words";
  } else {
    for (const std::string& part : split(text, "|")) {
      if (part == "FILE" || part == "PATH" || part.ends_with(".csv")) values.kind = "files";
      if (part == "DIR") values.kind = "folders";
      add_word(values.words, part);
    }
    if (name.ends_with(".csv")) values.kind = "files";
    if (!values.words.empty()) values.kind = "words";
    const KeyHelp* const key = values.kind == "any" ? key_of(name, option.get_description()) : nullptr;
    if (key != nullptr) return values_of_type(key->type);
  }
  return values;
}

// Returns the first part of `meaning`, at most kMaxMeaning characters, for one line of a menu.
std::string short_meaning(const std::string& meaning) {
  std::string text = meaning.substr(0, meaning.find("; "));
  if (text.size() <= kMaxMeaning) return text;
  text.resize(kMaxMeaning - 3);
  const size_t space = text.rfind(' ');
  if (space != std::string::npos) text.resize(space);
  return text + "...";
}

// Returns a row of the table, whose columns the scripts describe.
std::string row(std::string_view command, std::string_view names, const Values& values, std::string value,
                const std::string& meaning) {
  std::string last = short_meaning(meaning);
  std::ranges::replace(value, '|', '/');
  std::ranges::replace(last, '|', '/');
  return fmt::format("{}|{}|{}|{}|{}|{}\n", command, names, values.kind, value, fmt::join(values.words, " "), last);
}

std::string rows_of_options(const CLI::App& app, std::string_view command) {
  std::string rows;
  for (const CLI::Option* option : app.get_options()) {
    const bool positional = option->get_positional();
    if (positional && option->get_name(true) == "OVERRIDE") continue;  // the keys
    std::vector<std::string> names;
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const bool has_value = option->get_type_size() > 0 && option->get_expected_max() > 0;
    // A value that may be left out is not offered.
    const bool needs_value = positional || (has_value && option->get_expected_min() > 0);
    rows += row(command, positional ? "@" : fmt::format("{}", fmt::join(names, " ")),
                needs_value ? values_of(*option) : Values(),
                positional  ? option->get_name(true)
                : has_value ? value_text(*option)
                            : "",
                option->get_description());
  }
  return rows;
}

std::string table_of(const CLI::App& app) {
  std::string table = rows_of_options(app, "-");
  for (const CLI::App* command : app.get_subcommands({})) {
    table += row("-", command->get_name(), {}, "", command->get_description());
    table += rows_of_options(*command, command->get_name());
  }
  for (const KeyHelp& key : job_keys()) table += row("=", key.key, values_of_type(key.type), "", key.meaning);
  table.pop_back();
  return table;
}

std::string script(std::string_view shell, const CLI::App& app) {
  constexpr std::string_view kTable = "@TABLE@";
  std::string text(shell == "bash" ? kBashCompletion : shell == "zsh" ? kZshCompletion : kFishCompletion);
  // The table is in single quotes, which each shell has its own way to write in such a text.
  std::string table;
  for (const char c : table_of(app))
    table += c == '\'' ? std::string(shell == "fish" ? "\\'" : "'\\''") : std::string(1, c);
  return text.replace(text.find(kTable), kTable.size(), table);
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("completion", "print the completion script of a shell, or the manual page");
  const auto target = std::make_shared<std::string>();
  command->add_option("TARGET", *target, "bash, zsh or fish; or man: the manual page, in the format of troff")
      ->required()
      ->option_text("bash|zsh|fish|man")
      ->check(one_of({"bash", "zsh", "fish", "man"}));
  command->footer(kCompletionExamples);
  command->callback([&app, &action, target] {
    action = [&app, target]() -> int {
      print_result(*target == "man" ? man_page(app) : script(*target, app));
      return kDone;
    };
  });
}

namespace {

// Returns a line that troff prints unchanged. Hyphens become minus signs, so that a search for an option finds it.
std::string escaped(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\\')
      line += "\\e";
    else if (c == '-')
      line += "\\-";
    else
      line += c;
  }
  if (line.starts_with('.') || line.starts_with('\'')) line.insert(0, "\\&");
  return line;
}

// Returns "auto | path (default auto)".
std::string type_and_default(const KeyHelp& key) {
  if (key.default_value.starts_with('(')) return fmt::format("{} {}", key.type, key.default_value);
  return fmt::format("{} (default {})", key.type, key.default_value);
}

// Returns the text for an argument that is in double quotes.
std::string without_quotes(std::string text) {
  std::ranges::replace(text, '"', '\'');
  return text;
}

std::string sentence(std::string text) {
  if (text.empty()) return text;
  if (text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text.ends_with('.') ? text : text + ".";
}

std::string entry(std::string_view name, std::string_view meaning) {
  return fmt::format(".TP\n.B {}\n{}\n", escaped(name), escaped(meaning));
}

// Returns lines that troff does not fill: examples and the text around them.
std::string as_it_stands(std::string_view text) {
  std::string lines = ".PP\n.nf\n";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines += escaped(text.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return lines + ".fi\n";
}

std::string joined_lines(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string option_entry(const CLI::Option& option) {
  const CLI::Formatter help;
  const bool positional = option.get_positional();
  std::string name = help.make_option_name(&option, positional);
  if (!positional) {
    // Inserts a blank into "-h,--help".
    for (size_t at = name.find(','); at != std::string::npos; at = name.find(',', at + 2)) name.insert(at + 1, " ");
  }
  std::string value = help.make_option_opts(&option);
  while (value.ends_with(' ')) value.pop_back();
  return entry(name + value, option.get_description());
}

// Returns the options of a command. Options of a shared group are put into `shared` instead.
std::string options_of(const CLI::App& command, std::string& shared, std::string& shared_name) {
  std::string own;
  bool takes_shared = false;
  std::string group_text;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() == "Options" || option->get_positional()) {
      own += option_entry(*option);
    } else {
      takes_shared = true;
      shared_name = option->get_group();
      group_text += option_entry(*option);
    }
  }
  if (takes_shared) {
    check(shared.empty() || shared == group_text, "the shared options of plimsoll " + command.get_name() + " differ");
    shared = group_text;
    own += ".PP\nThis command also takes the usual flags, see\n.BR \"THE USUAL FLAGS\" .\n";
  }
  return own;
}

// Returns a section of "Exit codes: 0 done, 1 failed, …." and the sentences after it.
std::string exit_status(const std::string& footer) {
  constexpr std::string_view kBefore = "Exit codes: ";
  const std::string text = joined_lines(footer);
  const size_t begin = text.find(kBefore), end = text.find(". ", begin);
  check(begin != std::string::npos && end != std::string::npos, "the help does not list the exit codes");
  std::string codes = text.substr(begin + kBefore.size(), end - begin - kBefore.size());
  std::string lines = ".SH EXIT STATUS\n";
  for (size_t at = 0; at < codes.size();) {
    size_t next = at + 1;
    while (next < codes.size() && !(codes[next] >= '0' && codes[next] <= '9')) ++next;
    std::string meaning = codes.substr(at + 2, next - at - 2);
    while (meaning.ends_with(' ') || meaning.ends_with(',')) meaning.pop_back();
    lines += entry(codes.substr(at, 1), meaning);
    at = next;
  }
  return lines + fmt::format(".PP\n{}\n", escaped(text.substr(end + 2)));
}

std::string command_section(const CLI::App& command, std::string& shared, std::string& shared_name) {
  const CLI::Formatter help;
  std::string usage = help.make_usage(&command, "");
  usage = usage.substr(usage.find(':') + 1);
  while (usage.starts_with(' ')) usage.erase(0, 1);
  while (usage.ends_with('\n')) usage.pop_back();
  std::string text =
      fmt::format(".SS {}\n{}\n.PP\n.B plimsoll {}\n{}\n", escaped("plimsoll " + command.get_name()),
                  escaped(sentence(command.get_description())), escaped(command.get_name()), escaped(usage));
  text += options_of(command, shared, shared_name);
  // All job keys have a section of their own.
  std::string footer = command.get_footer();
  footer.resize(std::min(footer.find("Job keys with the largest effect on memory"), footer.size()));
  while (footer.ends_with('\n')) footer.pop_back();
  if (!footer.empty()) text += as_it_stands(footer);
  return text;
}

std::string key_section() {
  std::string text =
      ".SH KEYS OF THE JOB FILE\n"
      "Each key can also be an argument, as KEY=VALUE. docs/job\\-file.md describes the file.\n";
  for (const KeyHelp& key : job_keys())
    text += fmt::format(".TP\n.BR {} \" {}\"\n{}\n", escaped(key.key), escaped(without_quotes(type_and_default(key))),
                        escaped(key.meaning));
  return text;
}

}  // namespace

std::string man_page(const CLI::App& app) {
  const std::string version = version_text();
  std::string text = fmt::format(
      ".\\\" Written by: plimsoll completion man\n"
      ".TH PLIMSOLL 1 \"\" \"{}\" \"Plimsoll\"\n"
      ".ad l\n"
      ".nh\n"
      ".SH NAME\n"
      "plimsoll \\- trains deep networks inside a memory budget\n"
      ".SH SYNOPSIS\n"
      ".B plimsoll\n"
      "[OPTIONS] COMMAND [ARGUMENTS]\n"
      ".SH DESCRIPTION\n{}\n"
      ".SH OPTIONS\n",
      version.substr(0, version.find('\n')), escaped(joined_lines(app.get_description())));
  for (const CLI::Option* option : app.get_options()) text += option_entry(*option);
  text += ".SH COMMANDS\n";
  std::string shared, shared_name;
  for (const CLI::App* command : app.get_subcommands({})) text += command_section(*command, shared, shared_name);
  if (!shared.empty()) text += fmt::format(".SH THE USUAL FLAGS\n{}\n{}", escaped(sentence(shared_name)), shared);
  return text + key_section() + exit_status(app.get_footer()) + std::string(kManPageEnd);
}

}  // namespace plimsoll::cli
