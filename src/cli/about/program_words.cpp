#include "cli/about/program_words.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <utility>

#include "plimsoll/devices.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {
namespace {

constexpr size_t kMaxMeaning = 80;  // characters

using Kind = ValueWords::Kind;

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

template <typename Entries>
ValueWords ids_of(const Entries& entries, bool list) {
  ValueWords values{.kind = Kind::words, .list = list};
  for (const auto& entry : entries) values.words.push_back(entry.id);
  return values;
}

// Returns the text of the value in the help, without the range: "FILE|-", "N" of "N:from 1 to 4096".
std::string value_text(const CLI::Option& option) {
  std::string text = option.get_option_text();
  if (text.empty()) text = option.get_type_name().substr(0, option.get_type_name().find(':'));
  return text;
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

ValueWords values_of(const CLI::Option& option, const std::string& name) {
  const std::string text = value_text(option);
  if (name == "--gpu" || name == "PATTERN") return ids_of(device_catalogue(), text.find(',') != std::string::npos);
  if (name == "--link" || name == "--network") {
    ValueWords links{.kind = Kind::words};
    for (const LinkSpec& link : link_catalogue())
      if (link.between_machines == (name == "--network")) links.words.push_back(link.id);
    return links;
  }
  ValueWords values{.kind = Kind::any};
  for (const std::string& part : split(text, "|")) {
    if (part == "FILE" || part == "PATH" || part.ends_with(".csv")) values.kind = Kind::files;
    if (part == "DIR") values.kind = Kind::folders;
    add_word(values.words, part);
  }
  if (!values.words.empty()) values.kind = Kind::words;
  if (values.kind != Kind::any) return values;
  const KeyHelp* const key = key_of(name, option.get_description());
  return key == nullptr ? values : values_of_type(key->type);
}

OptionWords words_of(const CLI::Option& option) {
  OptionWords words;
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  words.meaning = option.get_description();
  if (option.get_type_size() == 0 || option.get_expected_max() == 0) return words;
  words.value = value_text(option);
  words.may_be_repeated = option.get_expected_max() > 1;
  if (option.get_expected_min() > 0) words.values = values_of(option, words.names.back());
  return words;
}

CommandWords words_of(const CLI::App& command) {
  CommandWords words{.name = command.get_name(), .meaning = command.get_description()};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(true);
    if (!option->get_positional())
      words.options.push_back(words_of(*option));
    else if (name == "JOB.yaml")
      words.takes_job = true;
    else if (name != "OVERRIDE") {
      words.argument_name = name;
      words.argument = values_of(*option, name);
      if (name.ends_with(".csv")) words.argument.kind = Kind::files;
    }
  }
  return words;
}

}  // namespace

ValueWords values_of_type(std::string_view type) {
  ValueWords values{.kind = Kind::any};
  for (std::string variant : split(type, ";")) {
    // "decoder, mamba: integer from 1 to 4096": the type for these kinds of models.
    if (const size_t colon = variant.find(": "); colon != std::string::npos && variant.find('|') > colon)
      variant.erase(0, colon + 2);
    const std::vector<std::string> alternatives = split(variant, "|");
    for (const std::string& alternative : alternatives) {
      if (alternative.ends_with(" or none")) add_word(values.words, "none");
      if (alternative == "path")
        values.kind = Kind::files;
      else if (alternative != "pattern" && alternatives.size() > 1)
        add_word(values.words, alternative);
    }
  }
  if (values.kind == Kind::any && !values.words.empty()) values.kind = Kind::words;
  return values;
}

std::string short_meaning(const std::string& meaning) {
  std::string text = meaning.substr(0, meaning.find("; "));
  if (text.size() <= kMaxMeaning) return text;
  text.resize(kMaxMeaning - 3);
  const size_t space = text.rfind(' ');
  if (space != std::string::npos) text.resize(space);
  return text + "...";
}

ProgramWords program_words(const CLI::App& app) {
  ProgramWords words;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_positional()) words.options.push_back(words_of(*option));
  for (const CLI::App* command : app.get_subcommands({})) words.commands.push_back(words_of(*command));
  for (const KeyHelp& key : job_keys()) words.keys.push_back({key.key, key.meaning, values_of_type(key.type)});
  return words;
}

}  // namespace plimsoll::cli
