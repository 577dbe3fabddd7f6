// Implements plimsoll completion man: the manual page, from the help of the program.
#include <embedded/completion.h>  // environment and files: man_page.troff (cmake/Embed.cmake)
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {
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
