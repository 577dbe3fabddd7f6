#include "cli/job_arguments.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text_width.h"
#include "cli/standard_streams.h"
#include "cli/unexpected_arguments.h"
#include "plimsoll/error.h"

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

}  // namespace plimsoll::cli
