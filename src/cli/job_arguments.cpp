#include "cli/job_arguments.h"

#include <fmt/format.h>
#include <CLI/App.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <system_error>

#include "base/text.h"
#include "cli/process.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/machine.h"

namespace plimsoll::cli {

void JobArguments::add_to(CLI::App& command) {
  command.add_option("JOB.yaml", file, "the job file")->required()->option_text(" ");
  command
      .add_option("OVERRIDE", overrides,
                  "value for a key of the job file, as key.path=value: optimizer.name=sgd 'data.files=[a.txt, b.txt]'")
      ->option_text("...");
  output.add_option_to(command);
  flags.add_to(command);
}

std::vector<std::string> JobArguments::all_overrides() const {
  std::vector<std::string> all = flags.overrides();
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

Job JobArguments::read_silently(const std::vector<std::string>& more) const {
  reject_unexpected_arguments(file, overrides);
  std::vector<std::string> all = all_overrides();
  all.insert(all.end(), more.begin(), more.end());
  return read_job(file, all);
}

Job JobArguments::read() const {
  Job job = read_silently();
  say_notes(job);
  return job;
}

void JobArguments::say_notes(const Job& job) {
  for (const std::string& note : job.notes) print_status(without_controls(note) + "\n");
}

void JobArguments::require_outputs_apart(const Job& job, std::vector<OutputFile> outputs) const {
  outputs.push_back({"--json", output.target()});
  cli::require_outputs_apart(outputs, file, job);
}

std::string memory_keys_help() {
  constexpr std::array<const char*, 10> names = {
      "memory_budget",     "micro_batch_size", "gradient_accumulation_steps", "gradient_checkpointing",
      "precision",         "optimizer.name",   "data.sequence_length",        "model.num_layers",
      "model.hidden_size", "model.vocab_size"};
  std::string text = "Job keys with the largest effect on memory (all keys: docs/job-file.md):\n";
  for (const std::string name : names) {
    const auto found = std::ranges::find(job_keys(), name, &KeyHelp::key);
    check(found != job_keys().end(), "no job key " + name);
    text += fmt::format("  {}: {} (default {})\n      {}\n", name, found->type, found->default_value, found->meaning);
  }
  return text;
}

namespace {

bool is_file(const std::string& word) {
  std::error_code error;
  return std::filesystem::is_regular_file(word, error);
}

bool is_yaml(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

bool is_override(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0;
}

/// Returns the probable meaning of words[at]; "" if there is none.
std::string advice_for(const std::string& file, const std::vector<std::string>& words, size_t at) {
  const std::string& word = words[at];
  const std::string next = at + 1 < words.size() ? words[at + 1] : "";
  if (is_yaml(word) || is_file(word))
    return fmt::format("the job file is {}, and there is one at a time", in_quotes(file));
  if (word == "true" || word == "false") return "a flag takes no value: leave it out";
  // "memory_budget 4GiB", "memory_budget = 4GiB", "memory_budget =4GiB", "memory_budget= 4GiB", of which 4GiB remains,
  // and the syntax of the job file: "memory_budget: 4GiB", in one word or two
  const size_t colon = std::min(word.find(':'), word.size());
  if (const std::string key = word.substr(0, colon); names_a_key(key)) {
    std::string value = word.substr(std::min(word.find_first_not_of(": ", colon), word.size()));
    if (value.empty()) value = next == "=" && at + 2 < words.size() ? words[at + 2] : next;
    if (value.starts_with('=')) value.erase(0, 1);
    if (value.empty() || is_override(value)) value = "VALUE";
    const std::string written = fmt::format("{}={}", suggest_keys(key).front(), value);
    return "write " + (written.find(' ') == std::string::npos ? one_line(written) : in_quotes(written));
  }
  if (find_device(word) != nullptr)
    return fmt::format("several devices stand in one word, with commas: --gpu NAME,{}", one_line(word));
  if (at > 0 && is_override(words[at - 1])) {
    const std::string joined = words[at - 1] + (words[at - 1].ends_with('=') ? "" : " ") + word;
    return fmt::format("a value with a space stands in quotes: {}", in_quotes(joined));
  }
  return "";
}

}  // namespace

void reject_unexpected_arguments(const std::string& file, const std::vector<std::string>& overrides) {
  if (is_override(file) && !is_file(file) && !is_yaml(file)) {
    const auto meant =
        std::ranges::find_if(overrides, [](const std::string& word) { return is_yaml(word) || is_file(word); });
    throw UserError(fmt::format("the job file comes before {}: {}", in_quotes(file),
                                meant == overrides.end()
                                    ? "plimsoll COMMAND JOB.yaml KEY=VALUE"
                                    : fmt::format("plimsoll COMMAND {} {}", one_line(*meant), one_line(file))));
  }
  for (size_t at = 0; at < overrides.size(); ++at) {
    if (is_override(overrides[at])) continue;
    const std::string advice = advice_for(file, overrides, at);
    throw UserError(fmt::format("command line: {} is not an override; {}", in_quotes(overrides[at]),
                                advice.empty() ? "write key.path=value, for example optimizer.name=sgd" : advice));
  }
}

void require_device_of(const Job& job) {
  if (job.device == "cpu") return;
  try {
    require_usable_device(job.device);
  } catch (const UserError& error) {
    // The job is not planned for the CPU here: that takes seconds for a large job, and the user may not need it.
    throw UserError(
        fmt::format("{}; 'plimsoll plan JOB.yaml device=cpu' says whether and how fast it trains on the CPU",
                    error.what()),
        error.kind());
  }
}

}  // namespace plimsoll::cli
