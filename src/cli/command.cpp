#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/names.h"
#include "base/text.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {

void print_result(const std::string& text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw UserError(fmt::format("cannot write to standard output: {}", std::generic_category().message(errno)),
                  UserError::Kind::failure);
}

namespace {

// Commands of other programs, and likely guesses.
constexpr std::array<std::pair<std::string_view, std::string_view>, 23> kOtherCommands = {{
    {"bench", "compare"},  {"benchmark", "compare"}, {"check", "plan"},    {"convert", "export"}, {"devices", "gpus"},
    {"dry-run", "plan"},   {"env", "doctor"},        {"estimate", "plan"}, {"finetune", "train"}, {"fit", "train"},
    {"gpu", "gpus"},       {"info", "doctor"},       {"list", "gpus"},     {"memory", "plan"},    {"merge", "export"},
    {"profile", "trace"},  {"resume", "train"},      {"run", "train"},     {"save", "export"},    {"start", "train"},
    {"status", "monitor"}, {"top", "monitor"},       {"watch", "monitor"},
}};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

bool takes_a_job(const CLI::App& command) {
  return command.get_option_no_throw("JOB.yaml") != nullptr;
}

bool is_job_file(const std::string& word) {
  std::error_code error;
  return word.ends_with(".yaml") || word.ends_with(".yml") || std::filesystem::is_regular_file(word, error);
}

/// Returns the value that was typed for an option: after its =, or the next word.
std::string value_of(const std::string& word, const std::vector<std::string>& words) {
  if (const size_t equals = word.find('='); equals != std::string::npos) return word.substr(equals + 1);
  const auto found = std::ranges::find(words, word);
  if (found == words.end() || found + 1 == words.end()) return "";
  const std::string& next = *(found + 1);
  return next.starts_with("--") || next.find('=') != std::string::npos || is_job_file(next) ? "" : next;
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> known = command_names(app);
  if (known.empty()) return fmt::format("{} does not take {}", app.get_name(), in_quotes(word));
  if (word == "help" || word == "version") return fmt::format("unknown command '{0}'; did you mean '--{0}'?", word);
  if (is_job_file(word)) return fmt::format("the command comes first: plimsoll train {}", one_line(word));
  const std::string message = fmt::format("unknown command {}", in_quotes(word));
  if (has({"accelerate", "deepspeed", "launch", "mpirun", "torchrun"}, word))
    return message +
           "; 'plimsoll train JOB.yaml --devices N' starts a process for each device itself; with a launcher: "
           "torchrun --no-python --nproc-per-node N plimsoll train JOB.yaml";
  const auto other = std::ranges::find(kOtherCommands, word, &decltype(kOtherCommands)::value_type::first);
  if (other != kOtherCommands.end()) return fmt::format("{}; did you mean '{}'?", message, other->second);
  if (const auto meant = nearest(word, known)) return fmt::format("{}; did you mean '{}'?", message, *meant);
  return fmt::format("{}; there are {}", message, fmt::join(known, ", "));
}

std::string unknown_option(const CLI::App& app, const CLI::App& place, const std::string& word,
                           const std::vector<std::string>& words) {
  const std::string option = word.substr(0, word.find('='));
  std::string message = fmt::format("unknown option {}", in_quotes(option));
  const bool job = takes_a_job(place);
  if (job)
    for (const char* file : {"-c", "-f", "-j", "--config", "--file", "--job", "--yaml", "--cfg", "--config-file"})
      if (option == file)
        return fmt::format("{}; the job file stands by itself: plimsoll {} JOB.yaml", message, place.get_name());

  std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::ranges::replace(name, '-', '_');
  if (job)
    if (const auto meaning = devices_word(name, value_of(word, words))) {
      using Kind = DevicesWord::Kind;
      if (meaning->kind == Kind::refused) return fmt::format("{} is not taken: {}", in_quotes(option), meaning->text);
      if (meaning->kind == Kind::needless) return fmt::format("{} {}; leave it out", in_quotes(option), meaning->text);
      return fmt::format("{}; a key of the job file stands without dashes: {}={}", message, meaning->key,
                         meaning->text.empty() ? "VALUE" : one_line(meaning->text));
    }
  const bool is_key = job && option.starts_with("--") && names_a_key(name);
  if (!is_key) {
    const std::vector<std::string> own = option_names(place);
    if (const auto meant = nearest(option, own)) return fmt::format("{}; did you mean '{}'?", message, *meant);
    // "--mem", "--output"
    for (const std::string& each : own)
      if (option.size() > 4 && each.size() > 4 && (each.starts_with(option) || option.starts_with(each)))
        return fmt::format("{}; did you mean '{}'?", message, each);
  }
  std::vector<std::string> other_commands;
  for (const CLI::App* command : app.get_subcommands({}))
    if (command != &place && has(option_names(*command), option)) other_commands.push_back(command->get_name());
  // A GPU of the catalogue is planned for; a run trains on a device of this machine.
  if (option == "--gpu" && job) {
    const std::string gpu = value_of(word, words);
    return fmt::format(
        "{}; a run uses a device of this machine: device=cuda; to plan for another GPU: plimsoll plan "
        "JOB.yaml --gpu {}",
        message, gpu.empty() ? "NAME" : one_line(gpu));
  }
  if (!other_commands.empty()) message += fmt::format("; it is one of plimsoll {}", fmt::join(other_commands, " and "));
  if (!job || !option.starts_with("--")) return message;
  if (const std::vector<std::string> keys = suggest_keys(name); keys.size() == 1) {
    // A section's name alone usually means its kind: --optimizer adamw, --model mamba.
    std::string key = keys.front();
    for (const char* last : {".name", ".type"})
      if (!is_job_key(key) && is_job_key(keys.front() + last)) key = keys.front() + last;
    if (!is_job_key(key)) return message;
    const std::string value = value_of(word, words);
    message += fmt::format("; a key of the job file stands without dashes: {}={}", key,
                           value.empty() ? "VALUE" : one_line(value));
  }
  return message;
}

/// Returns "--gpu" for "--gpu: 1 required NAME missing"; the rest stays in `message`.
std::string option_in_front_of(std::string& message) {
  const size_t colon = message.find(": ");
  if (colon == std::string::npos) return "";
  std::string option = message.substr(0, colon);
  message.erase(0, colon + 2);
  return option;
}

std::string wrong_count(const CLI::App& place, std::string message) {
  const std::string whole = message, name = option_in_front_of(message);
  if (message.find("missing") != std::string::npos) {
    const CLI::Option* option = place.get_option_no_throw(name);
    std::string what = option == nullptr ? "" : option->get_option_text();
    if (what.empty() && option != nullptr) what = option->get_type_name();
    if (what.empty() || what == "VALUE" || what.starts_with("TEXT")) return name + " needs a value";
    // CLI11 puts the range behind the type: "N:from 1 to 100".
    const size_t colon = std::min(what.find(':'), what.size());
    return fmt::format("{} needs a value: {}{}", name, what.substr(0, colon),
                       colon < what.size() ? ", " + what.substr(colon + 1) : "");
  }
  if (message.find("At Most 1") != std::string::npos) return name + " is given twice; give it once";
  return whole;
}

/// Returns both options of "A requires B", "A excludes B".
std::optional<std::pair<std::string, std::string>> both_of(const std::string& message, const std::string& between) {
  const size_t at = message.find(between);
  if (at == std::string::npos) return std::nullopt;
  return std::pair{message.substr(0, at), message.substr(at + between.size())};
}

std::string missing(const CLI::App& place, const std::string& message) {
  std::string usage = "plimsoll " + place.get_name();
  for (const CLI::Option* option : place.get_options()) {
    if (!option->get_required()) continue;
    usage += " " + option->get_name();
    if (!option->get_positional())
      usage += " " + (option->get_option_text().empty() ? "VALUE" : option->get_option_text());
  }
  return fmt::format("{}: {}", message, usage);
}

std::string what_is_wrong(const CLI::App& app, const CLI::App& place, const CLI::ParseError& error,
                          const std::vector<std::string>& words) {
  const bool at_top = &place == &app;
  const std::string message = error.what();
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr || (at_top && required)) {
    if (const std::vector<std::string> left = place.remaining(); !left.empty())
      return left.front().starts_with('-') ? unknown_option(app, place, left.front(), words)
                                           : unknown_command(place, left.front());
    // Options before the command belong to the program itself.
    if (!at_top)
      for (const std::string& word : words)
        if (word.starts_with('-') && has(app.remaining(), word)) {
          std::vector<std::string> moved = words;
          std::ranges::rotate(moved, std::ranges::find(moved, place.get_name()));
          return fmt::format("{} stands behind the command: plimsoll {}", one_line(word),
                             one_line(fmt::format("{}", fmt::join(moved, " "))));
        }
    return at_top ? fmt::format("a command is needed: {}", fmt::join(command_names(app), ", ")) : message;
  }
  if (required) {
    // A missing option may have been given by a wrong name.
    for (const std::string& word : place.remaining())
      if (word.starts_with('-'))
        return fmt::format("{}; {}", unknown_option(app, place, word, words), missing(place, message));
    return missing(place, message);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return wrong_count(place, message);
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
    if (const auto both = both_of(message, " = "); both && message.starts_with("Could not convert: "))
      return fmt::format("{} does not take the value {}",
                         both->first.substr(std::string_view("Could not convert: ").size()), in_quotes(both->second));
  if (const auto both = both_of(message, " excludes "))
    return fmt::format("{} and {} do not go together; give one of them", both->first, both->second);
  if (const auto both = both_of(message, " requires "))
    return fmt::format("{} goes with {} alone: give that too, or leave it out", both->first, both->second);
  return message;
}

}  // namespace

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error,
                                 const std::vector<std::string>& words) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& place = chosen.empty() ? app : *chosen.front();
  const std::string help = chosen.empty() ? "plimsoll --help" : fmt::format("plimsoll {} --help", place.get_name());
  return fmt::format("{}; see '{}'", what_is_wrong(app, place, error, words), help);
}

}  // namespace plimsoll::cli
